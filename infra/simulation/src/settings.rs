//! The template's stack and the configuration of the functions.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use touchline::config::Config;
use touchline_stack::{Stack, TEMPLATE, Template, direct};
use touchline_testing::HS_TOKEN;

/// The stack of the template. The simulation has its own streams, so its tables have none.
pub static STACK: LazyLock<Stack> = LazyLock::new(|| {
    // With these parameters, the tables have a `WarmThroughput`. The limits then show which tables it applies to.
    let parameters =
        [("AWS::StackName", "world"), ("WarmReadsPerSecond", "60000"), ("WarmWritesPerSecond", "60000")];
    let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut stack = Template::parse(TEMPLATE)
        .and_then(|template| template.resolve(&parameters.into()))
        .expect("the template is valid");
    for table in &mut stack.tables {
        if let Some(properties) = table.properties.as_object_mut() {
            properties.remove("StreamSpecification");
        }
    }
    stack
});

/// Returns the configuration of all functions, with a region that no other has.
///
/// The SDK limits the retries of a process for each region. With a region of its own, a simulation is not affected by the
/// others in this process.
pub fn config() -> Arc<Config> {
    static REGIONS: AtomicU64 = AtomicU64::new(0);
    let region = format!("region-{}", REGIONS.fetch_add(1, Ordering::Relaxed));
    let mut variables = STACK.functions[0].environment.clone();
    for (name, value) in [
        ("ENVIRONMENT", "testing"),
        ("AWS_REGION", region.as_str()),
        ("AWS_ACCESS_KEY_ID", "simulated"),
        ("AWS_SECRET_ACCESS_KEY", "simulated"),
        ("CODE_PEPPER", "a pepper for the simulation"),
        ("SMS_PROVIDER", "console"),
        ("CHAT_AS_TOKEN", ""),
        ("CHAT_HS_TOKEN", HS_TOKEN),
        ("AWS_ENDPOINT_URL_DYNAMODB", direct::ENDPOINT),
    ] {
        variables.insert(name.into(), value.into());
    }
    Arc::new(Config::read(|name| variables.get(name).cloned()).expect("the variables are complete"))
}
