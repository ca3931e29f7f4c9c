//! Text messages.

use std::fmt::Debug;
use std::time::Duration;

use aws_sdk_sns::Client;
use aws_sdk_sns::config::retry::RetryConfig;
use aws_sdk_sns::config::timeout::TimeoutConfig;
use aws_sdk_sns::config::{HttpClient, Region};
use aws_sdk_sns::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sns::types::MessageAttributeValue;

use super::Answer;
use crate::config::{Aws, SnsSettings};
use crate::domain::Phone;

/// How the provider took a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// How often the provider was asked.
    pub attempts: u32,
    pub outcome: Result<(), SmsRefused>,
}

/// The provider's word for why not, safe to keep and to show to a developer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SmsRefused(pub String);

/// Somebody who sends text messages.
pub trait Sms: Debug + Send + Sync {
    /// The provider's name in the log.
    fn provider(&self) -> &'static str;

    fn send<'a>(&'a self, to: &'a Phone, text: &'a str) -> Answer<'a, Delivery>;
}

/// For developers: the message appears on the terminal.
#[derive(Debug)]
pub struct Console;

impl Sms for Console {
    fn provider(&self) -> &'static str {
        "console"
    }

    #[expect(clippy::print_stdout, reason = "the terminal is the phone here")]
    fn send<'a>(&'a self, to: &'a Phone, text: &'a str) -> Answer<'a, Delivery> {
        println!("SMS to {}: {text}", to.as_str());
        Box::pin(async { Delivery { attempts: 1, outcome: Ok(()) } })
    }
}

/// Amazon SNS.
#[derive(Debug)]
pub struct Sns {
    client: Client,
    settings: SnsSettings,
}

/// Publishing is not idempotent: a message whose answer was lost may go out twice, which is the same code
/// twice on one phone. So it is asked again where SNS throttled, failed or was not reached, but not after
/// a timeout, when the message is most likely out. The SDK's own retries are off, to have a true count.
const ATTEMPTS: u32 = 3;

impl Sns {
    #[must_use]
    pub fn new(aws: &Aws, settings: SnsSettings, http: impl HttpClient + 'static) -> Self {
        let mut config = aws_sdk_sns::Config::builder()
            .region(Region::new(aws.region.clone()))
            .credentials_provider(aws.credentials.clone())
            .http_client(http)
            .retry_config(RetryConfig::disabled())
            .timeout_config(
                TimeoutConfig::builder()
                    .connect_timeout(Duration::from_secs(1))
                    .operation_timeout(Duration::from_secs(3))
                    .build(),
            );
        if let Some(endpoint) = &aws.sns_endpoint {
            config = config.endpoint_url(endpoint);
        }
        Self { client: Client::from_conf(config.build()), settings }
    }

    async fn publish(&self, to: &Phone, text: &str) -> Result<(), (SmsRefused, CanRetry)> {
        let attribute = |kind: &str, value: &str| {
            MessageAttributeValue::builder().data_type(kind).string_value(value).build().ok()
        };
        let mut message = self.client.publish().phone_number(to.as_str()).message(text);
        let attributes = [
            ("AWS.SNS.SMS.SMSType", attribute("String", "Transactional")),
            // The guard on spending: a message that would cost more is not sent.
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
                // The code alone: SNS repeats the phone number in some of its messages.
                let word = error.code().unwrap_or(match &error {
                    SdkError::TimeoutError(_) => "Timeout",
                    SdkError::DispatchFailure(_) => "DispatchFailure",
                    _ => "Unknown",
                });
                Err((SmsRefused(word.to_owned()), can_retry))
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

    fn send<'a>(&'a self, to: &'a Phone, text: &'a str) -> Answer<'a, Delivery> {
        Box::pin(async move {
            let mut attempts = 1;
            let outcome = loop {
                match self.publish(to, text).await {
                    Err((_, CanRetry::Yes)) if attempts < ATTEMPTS => {
                        tokio::time::sleep(Duration::from_millis(50 << attempts)).await;
                        attempts += 1;
                    }
                    result => break result.map_err(|(refused, _)| refused),
                }
            };
            Delivery { attempts, outcome }
        })
    }
}
