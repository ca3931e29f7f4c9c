//! Text messages.

use std::fmt::Debug;
use std::time::Duration;

use aws_sdk_sns::Client;
use aws_sdk_sns::config::retry::RetryConfig;
use aws_sdk_sns::config::timeout::TimeoutConfig;
use aws_sdk_sns::config::{HttpClient, Region};
use aws_sdk_sns::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sns::types::MessageAttributeValue;
use futures_util::future::BoxFuture;

use crate::config::{Aws, SnsSettings};
use crate::domain::Phone;

/// The result of sending a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// The number of requests to the provider.
    pub attempts: u32,
    pub outcome: Result<(), SmsFailed>,
}

/// The error code of the provider. The error text of the provider is left out, because it can contain the phone
/// number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SmsFailed(pub String);

/// Sends text messages.
pub trait Sms: Debug + Send + Sync {
    /// Returns the provider's name for the SMS log.
    fn provider(&self) -> &'static str;

    /// Sends `text` to a phone.
    fn send<'a>(&'a self, to: &'a Phone, text: &'a str) -> BoxFuture<'a, Delivery>;
}

/// Prints messages to the terminal, for development.
#[derive(Debug)]
pub struct Console;

impl Sms for Console {
    fn provider(&self) -> &'static str {
        "console"
    }

    #[expect(clippy::print_stdout, reason = "the terminal replaces the phone")]
    fn send<'a>(&'a self, to: &'a Phone, text: &'a str) -> BoxFuture<'a, Delivery> {
        println!("SMS to {}: {text}", to.as_str());
        Box::pin(async { Delivery { attempts: 1, outcome: Ok(()) } })
    }
}

/// Sends messages through Amazon SNS.
#[derive(Debug)]
pub struct Sns {
    client: Client,
    settings: SnsSettings,
}

/// The maximum number of requests per message.
///
/// Publishing is not idempotent: a retry after a lost response can deliver the same message twice. We retry
/// if SNS throttles, fails or cannot be reached. We do not retry a timeout, because the message was probably
/// sent. The SDK's own retries are off, so that the count of attempts is exact.
const ATTEMPTS: u32 = 3;

impl Sns {
    /// Creates an SNS client.
    #[must_use]
    pub fn new(aws: &Aws, settings: SnsSettings, http: impl HttpClient + 'static) -> Self {
        let mut config = aws_sdk_sns::Config::builder()
            .region(Region::new(aws.region.clone()))
            .credentials_provider(aws.credentials.clone())
            .http_client(http)
            .retry_config(RetryConfig::disabled())
            .timeout_config(TimeoutConfig::builder().operation_timeout(Duration::from_secs(3)).build());
        if let Some(endpoint) = &aws.sns_endpoint {
            config = config.endpoint_url(endpoint);
        }
        Self { client: Client::from_conf(config.build()), settings }
    }

    async fn publish(&self, to: &Phone, text: &str) -> Result<(), (SmsFailed, CanRetry)> {
        let attribute = |kind: &str, value: &str| {
            MessageAttributeValue::builder().data_type(kind).string_value(value).build().ok()
        };
        let mut message = self.client.publish().phone_number(to.as_str()).message(text);
        let attributes = [
            ("AWS.SNS.SMS.SMSType", attribute("String", "Transactional")),
            // SNS does not send a message that costs more than this price.
            ("AWS.SNS.SMS.MaxPrice", attribute("Number", &self.settings.max_price_usd)),
            (
                "AWS.SNS.SMS.SenderID",
                self.settings.sender_id.as_deref().and_then(|sender| attribute("String", sender)),
            ),
        ];
        for (name, value) in attributes {
            if let Some(value) = value {
                message = message.message_attributes(name, value);
            }
        }
        match message.send().await {
            Ok(_) => Ok(()),
            Err(error) => {
                let can_retry = match &error {
                    SdkError::ServiceError(service) => match error.code() {
                        Some("Throttled" | "ThrottlingException" | "Throttling") => CanRetry::Yes,
                        _ if service.raw().status().is_server_error() => CanRetry::Yes,
                        _ => CanRetry::No,
                    },
                    SdkError::DispatchFailure(failure) if failure.is_io() => CanRetry::Yes,
                    _ => CanRetry::No,
                };
                // Only the error code is kept, because SNS quotes the phone number in some error messages.
                let code = error.code().unwrap_or(match &error {
                    SdkError::TimeoutError(_) => "Timeout",
                    SdkError::DispatchFailure(_) => "DispatchFailure",
                    _ => "Unknown",
                });
                Err((SmsFailed(code.to_owned()), can_retry))
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CanRetry {
    Yes,
    No,
}

impl Sms for Sns {
    fn provider(&self) -> &'static str {
        "sns"
    }

    fn send<'a>(&'a self, to: &'a Phone, text: &'a str) -> BoxFuture<'a, Delivery> {
        Box::pin(async move {
            let mut attempts = 1;
            let outcome = loop {
                match self.publish(to, text).await {
                    Err((_, CanRetry::Yes)) if attempts < ATTEMPTS => {
                        tokio::time::sleep(Duration::from_millis(50 << attempts)).await;
                        attempts += 1;
                    }
                    result => break result.map_err(|(failed, _)| failed),
                }
            };
            Delivery { attempts, outcome }
        })
    }
}
