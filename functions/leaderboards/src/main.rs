#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), touchline::lambda::Error> {
    touchline::lambda::serve(leaderboards::router).await
}
