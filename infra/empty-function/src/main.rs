//! A Lambda function that does nothing. Its cold start shows how long `lambda_http` itself takes to start.

use lambda_http::{Body, Error, Response, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda_http::run(service_fn(|_| async { Ok::<_, Error>(Response::new(Body::from("{}"))) })).await
}
