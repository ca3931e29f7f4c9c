//! A function that does nothing. Its cold start takes as long as `lambda_http` itself needs.

use lambda_http::{Body, Error, Response, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    lambda_http::run(service_fn(|_| async { Ok::<_, Error>(Response::new(Body::from("{}"))) })).await
}
