//! Reads the Lambda functions and the tables of a SAM template, and ignores its other resources. Supports only the
//! intrinsic functions and event types that `template.yaml` uses. All others are errors.

mod error;
mod intrinsics;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub use error::TemplateError;

use crate::resources::{Cors, Function, Route, Schedule, Stack, StreamMapping, Table, Throttle};
use crate::yaml;
use intrinsics::Evaluator;

/// Lambda's default timeout.
const DEFAULT_TIMEOUT_SECONDS: u64 = 3;

/// Lambda's default memory size.
const DEFAULT_MEMORY_MB: u32 = 128;

/// Lambda's default batch size for DynamoDB streams.
const DEFAULT_BATCH_SIZE: usize = 100;

/// A template whose parameters have no values yet.
#[derive(Debug, Clone)]
pub struct Template(Value);

impl Template {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Ok(Self(yaml::parse(text)?))
    }

    /// Fills in the parameters. A parameter without a given value gets its default. `parameters` can also
    /// set `AWS::StackName`.
    pub fn resolve(&self, parameters: &BTreeMap<String, String>) -> Result<Stack, TemplateError> {
        if let Some(unknown) = parameters
            .keys()
            .find(|name| !name.starts_with("AWS::") && self.0["Parameters"].get(name.as_str()).is_none())
        {
            return Err(TemplateError::Missing(format!("a parameter {unknown}")));
        }
        let evaluator = Evaluator { template: &self.0, parameters };
        let globals = &self.0["Globals"]["Function"];
        let (mut functions, mut tables, mut route_throttle, mut cors) = (Vec::new(), Vec::new(), None, None);
        for (id, resource) in self.0["Resources"].as_object().into_iter().flatten() {
            match resource["Type"].as_str() {
                Some("AWS::Serverless::Function") => {
                    functions.push(function(&evaluator, id, resource, globals)?);
                }
                Some("AWS::DynamoDB::Table") => tables.push(Table {
                    logical_id: id.clone(),
                    name: evaluator.table_name(id)?,
                    properties: evaluator.value(&resource["Properties"])?,
                }),
                Some("AWS::Serverless::HttpApi") => {
                    route_throttle = throttle(&evaluator, &resource["Properties"]["DefaultRouteSettings"])?;
                    cors = cors_settings(&evaluator.value(&resource["Properties"]["CorsConfiguration"])?);
                }
                _ => {}
            }
        }
        Ok(Stack { functions, tables, route_throttle, cors })
    }
}

fn throttle(evaluator: &Evaluator<'_>, settings: &Value) -> Result<Option<Throttle>, TemplateError> {
    let limit = |name: &str| match settings.get(name) {
        Some(limit) => number(evaluator, limit),
        None => Ok(None),
    };
    let limits = (limit("ThrottlingRateLimit")?, limit("ThrottlingBurstLimit")?);
    Ok(limits.0.zip(limits.1).map(|(rate, burst)| Throttle { rate: rate.into(), burst: burst.into() }))
}

/// Reads an evaluated `CorsConfiguration`. Returns `None` if it is not an object, such as `AWS::NoValue`.
fn cors_settings(settings: &Value) -> Option<Cors> {
    let settings = settings.as_object()?;
    let list = |name: &str| {
        let items = settings.get(name).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let max_age = settings.get("MaxAge").and_then(Value::as_u64);
    Some(Cors {
        origins: list("AllowOrigins"),
        methods: list("AllowMethods"),
        headers: list("AllowHeaders"),
        exposed_headers: list("ExposeHeaders"),
        max_age_seconds: max_age.and_then(|seconds| seconds.try_into().ok()).unwrap_or_default(),
    })
}

/// Evaluates a number. Returns `None` if the value is not a number, such as `AWS::NoValue`.
fn number(evaluator: &Evaluator<'_>, value: &Value) -> Result<Option<u32>, TemplateError> {
    Ok(evaluator.text(value)?.parse().ok())
}

fn function(
    evaluator: &Evaluator<'_>,
    id: &str,
    resource: &Value,
    globals: &Value,
) -> Result<Function, TemplateError> {
    let name = resource["Metadata"]["BuildProperties"]["Binary"]
        .as_str()
        .ok_or_else(|| TemplateError::Missing(format!("the Binary of {id}")))?;
    let mut function = Function {
        logical_id: id.to_owned(),
        name: name.to_owned(),
        environment: BTreeMap::new(),
        timeout_seconds: DEFAULT_TIMEOUT_SECONDS,
        memory_mb: DEFAULT_MEMORY_MB,
        reserved_concurrency: None,
        routes: Vec::new(),
        schedules: Vec::new(),
        streams: Vec::new(),
    };
    for properties in [globals, &resource["Properties"]] {
        if let Some(seconds) = properties["Timeout"].as_u64() {
            function.timeout_seconds = seconds;
        }
        if let Some(memory) = properties.get("MemorySize") {
            function.memory_mb = number(evaluator, memory)?.unwrap_or(function.memory_mb);
        }
        if let Some(reserved) = properties.get("ReservedConcurrentExecutions") {
            function.reserved_concurrency = number(evaluator, reserved)?;
        }
        for (variable, value) in properties["Environment"]["Variables"].as_object().into_iter().flatten() {
            function.environment.insert(variable.clone(), evaluator.text(value)?);
        }
    }
    for (event_id, event) in resource["Properties"]["Events"].as_object().into_iter().flatten() {
        let properties = &event["Properties"];
        match event["Type"].as_str() {
            Some("HttpApi") => function.routes.push(Route {
                method: evaluator.text(&properties["Method"])?.to_uppercase(),
                path: evaluator.text(&properties["Path"])?,
            }),
            Some("Schedule" | "ScheduleV2") => {
                function.schedules.push(schedule(evaluator, event_id, properties)?);
            }
            Some("DynamoDB") => function.streams.push(stream_mapping(evaluator, properties)?),
            other => return Err(TemplateError::Unsupported(format!("an event of type {other:?}"))),
        }
    }
    function.routes.sort();
    Ok(function)
}

fn schedule(
    evaluator: &Evaluator<'_>,
    event_id: &str,
    properties: &Value,
) -> Result<Schedule, TemplateError> {
    let expression = ["ScheduleExpression", "Schedule"]
        .into_iter()
        .find_map(|key| properties.get(key))
        .ok_or_else(|| TemplateError::Missing(format!("the expression of {event_id}")))?;
    let input = match properties.get("Input") {
        Some(input) => serde_json::from_str(&evaluator.text(input)?)
            .map_err(|error| TemplateError::Unsupported(format!("the input of {event_id}: {error}")))?,
        None => json!({}),
    };
    Ok(Schedule { expression: evaluator.text(expression)?, input })
}

fn stream_mapping(evaluator: &Evaluator<'_>, properties: &Value) -> Result<StreamMapping, TemplateError> {
    let batch_size = properties["BatchSize"].as_u64().and_then(|size| size.try_into().ok());
    let response_types = properties["FunctionResponseTypes"].as_array();
    Ok(StreamMapping {
        table: stream_table(evaluator, &properties["Stream"])?,
        batch_size: batch_size.unwrap_or(DEFAULT_BATCH_SIZE),
        reports_failures: response_types
            .is_some_and(|types| types.iter().any(|kind| kind == "ReportBatchItemFailures")),
        filters: filters(properties)?,
    })
}

/// Returns the name of the table whose stream is `value`, such as `!GetAtt Rooms.StreamArn`.
fn stream_table(evaluator: &Evaluator<'_>, value: &Value) -> Result<String, TemplateError> {
    match value["Fn::GetAtt"].as_array().map(Vec::as_slice) {
        Some([id, attribute]) if attribute == "StreamArn" => {
            evaluator.table_name(id.as_str().unwrap_or_default())
        }
        _ => Err(TemplateError::Unsupported(format!("the stream {value}"))),
    }
}

fn filters(properties: &Value) -> Result<Vec<Value>, TemplateError> {
    let filters = properties["FilterCriteria"]["Filters"].as_array().map(Vec::as_slice).unwrap_or_default();
    let pattern = |filter: &Value| {
        let text = filter["Pattern"].as_str().unwrap_or_default();
        serde_json::from_str(text).map_err(|_| TemplateError::Unsupported(format!("the filter {filter}")))
    };
    filters.iter().map(pattern).collect()
}
