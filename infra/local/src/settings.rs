//! The template's parameters and the functions' environment variables, from the command line.

use std::collections::BTreeMap;
use std::fs;

use touchline_stack::{Stack, TEMPLATE, Template};

use crate::error::StartError;
use crate::options::Options;
use crate::registration::Registration;

pub(crate) fn read_registration(options: &Options) -> Result<Option<Registration>, StartError> {
    let Some(path) = &options.registration else { return Ok(None) };
    match Registration::read(path) {
        Ok(registration) => Ok(Some(registration)),
        Err(problem) => Err(StartError::Registration(path.clone(), problem)),
    }
}

/// Reads the template and fills in its parameters.
pub(crate) fn read_stack(
    options: &Options,
    registration: Option<&Registration>,
) -> Result<Stack, StartError> {
    let text = match &options.template {
        None => TEMPLATE.to_owned(),
        Some(path) => {
            fs::read_to_string(path).map_err(|error| StartError::TemplateFile(path.clone(), error))?
        }
    };
    let mut parameters: BTreeMap<String, String> = [
        ("AWS::StackName", options.stack_name.as_str()),
        ("Environment", "local"),
        // Check for a newer catalog on every request, so that the next response shows what was just imported.
        ("CatalogMaxAgeMs", "0"),
        ("SmsProvider", if options.sns.is_some() { "sns" } else { "console" }),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    if let Some(url) = &options.homeserver {
        parameters.insert("ChatHomeserverUrl".into(), url.clone());
    }
    if let Some(name) = registration.and_then(|registration| registration.server_name.clone()) {
        parameters.insert("ChatServerName".into(), name);
    }
    if !options.allowed_origins.is_empty() {
        parameters.insert("AllowedOrigins".into(), options.allowed_origins.join(","));
    }
    parameters.extend(options.parameters.iter().cloned());
    Ok(Template::parse(&text)?.resolve(&parameters)?)
}

/// Returns a function's environment: the variables of the template, and the variables that Lambda and Secrets
/// Manager add in AWS.
pub(crate) fn environment(
    from_template: &BTreeMap<String, String>,
    dynamodb: &str,
    options: &Options,
    registration: Option<&Registration>,
) -> BTreeMap<String, String> {
    let mut variables = from_template.clone();
    variables.extend(
        [
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "local"),
            ("AWS_SECRET_ACCESS_KEY", "local"),
            ("AWS_ENDPOINT_URL_DYNAMODB", dynamodb),
            // The pepper is constant, so that pending codes stay valid after a restart. It does not need to
            // be secret, because the local stack logs the codes themselves.
            ("CODE_PEPPER", "the pepper of every local stack"),
            ("CHAT_AS_TOKEN", registration.map_or("", |registration| &registration.as_token)),
            ("CHAT_HS_TOKEN", registration.map_or("", |registration| &registration.hs_token)),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    variables.insert("CHAT_TIMEOUT_SECONDS".into(), options.homeserver_timeout.to_string());
    if let Some(sns) = &options.sns {
        variables.insert("AWS_ENDPOINT_URL_SNS".into(), sns.clone());
    }
    variables
}
