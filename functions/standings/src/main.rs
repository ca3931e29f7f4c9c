#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), touchline::lambda::Error> {
    touchline::lambda::run(standings::handle_in_lambda).await
}
