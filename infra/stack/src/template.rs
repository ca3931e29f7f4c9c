//! Reads a SAM template: as much of CloudFormation as ours uses, and a clear word about the rest.

use std::collections::BTreeMap;

use saphyr::{LoadableYamlNode as _, ScalarOwned, YamlOwned};
use serde_json::{Map, Value, json};

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("the template is not YAML: {0}")]
    NotYaml(String),
    #[error("the template has {0}, which is not understood here")]
    Unsupported(String),
    #[error("the template lacks {0}")]
    Missing(String),
}

/// A template as written: short intrinsics such as `!Ref x` have their long form `{"Ref": "x"}`.
#[derive(Debug, Clone)]
pub struct Template(Value);

/// A template with its parameters filled in.
#[derive(Debug, Clone)]
pub struct Stack {
    pub functions: Vec<Function>,
    pub tables: Vec<Table>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    pub logical_id: String,
    /// The binary, and the name by which it is invoked.
    pub name: String,
    pub environment: BTreeMap<String, String>,
    pub timeout_seconds: u64,
    pub routes: Vec<Route>,
    pub schedules: Vec<Schedule>,
    pub streams: Vec<Stream>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    pub method: String,
    pub path: String,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// As written: `rate(1 minute)`.
    pub expression: String,
    /// What the function is invoked with.
    pub input: Value,
}

impl Schedule {
    /// The time between two runs. Local runs know rates alone.
    pub fn period(&self) -> Result<std::time::Duration, TemplateError> {
        let unsupported = || TemplateError::Unsupported(format!("the schedule {:?}", self.expression));
        let rate = self.expression.strip_prefix("rate(").and_then(|rest| rest.strip_suffix(')'));
        let (count, unit) = rate.and_then(|rate| rate.split_once(' ')).ok_or_else(unsupported)?;
        let count: u64 = count.parse().map_err(|_| unsupported())?;
        let seconds = match unit.trim_end_matches('s') {
            "minute" => 60,
            "hour" => 3_600,
            "day" => 86_400,
            _ => return Err(unsupported()),
        };
        Ok(std::time::Duration::from_secs(count * seconds))
    }
}

/// A table's changes, delivered to a function.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    pub table: String,
    pub batch_size: i32,
    /// `FunctionResponseTypes` holds `ReportBatchItemFailures`.
    pub reports_failures: bool,
    /// `FilterCriteria`: a record that none of these fits is not delivered. Empty means that all are.
    pub filters: Vec<Value>,
}

impl Stream {
    /// Whether a record, as an event has it, is delivered.
    #[must_use]
    pub fn takes(&self, record: &Value) -> bool {
        self.filters.is_empty() || self.filters.iter().any(|pattern| fits(pattern, record))
    }
}

/// Whether a value fits a pattern of Lambda's event filtering: objects field by field, lists as alternatives.
fn fits(pattern: &Value, value: &Value) -> bool {
    match pattern {
        Value::Object(fields) => fields.iter().all(|(name, pattern)| fits(pattern, &value[name])),
        Value::Array(alternatives) => alternatives.iter().any(|one| match one.get("prefix") {
            Some(prefix) => prefix.as_str().zip(value.as_str()).is_some_and(|(p, text)| text.starts_with(p)),
            None => one == value,
        }),
        _ => false,
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    pub logical_id: String,
    pub name: String,
    /// `Properties` as CloudFormation defines them, which is how DynamoDB does.
    pub properties: Value,
}

impl Template {
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        yaml(text).map(Self)
    }

    /// Fills in parameters: those given, else their defaults. `AWS::StackName` is one of them.
    pub fn resolve(&self, parameters: &BTreeMap<String, String>) -> Result<Stack, TemplateError> {
        if let Some(unknown) = parameters
            .keys()
            .find(|name| !name.starts_with("AWS::") && self.0["Parameters"].get(name.as_str()).is_none())
        {
            return Err(TemplateError::Missing(format!("a parameter {unknown}")));
        }
        let resolver = Resolver { template: &self.0, parameters };
        let globals = &self.0["Globals"]["Function"];
        let (mut functions, mut tables) = (Vec::new(), Vec::new());
        for (id, resource) in self.0["Resources"].as_object().into_iter().flatten() {
            match resource["Type"].as_str() {
                Some("AWS::Serverless::Function") => {
                    functions.push(resolver.function(id, resource, globals)?);
                }
                Some("AWS::DynamoDB::Table") => tables.push(Table {
                    logical_id: id.clone(),
                    name: resolver.table_name(id)?,
                    properties: resolver.value(&resource["Properties"])?,
                }),
                _ => {}
            }
        }
        Ok(Stack { functions, tables })
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

/// The first document of a YAML text, as JSON.
pub fn yaml(text: &str) -> Result<Value, TemplateError> {
    let documents =
        YamlOwned::load_from_str(text).map_err(|error| TemplateError::NotYaml(error.to_string()))?;
    plain(documents.into_iter().next().ok_or_else(|| TemplateError::Missing("everything".into()))?)
}

/// YAML to JSON, with tags written out.
fn plain(node: YamlOwned) -> Result<Value, TemplateError> {
    Ok(match node {
        YamlOwned::Value(scalar) => match scalar {
            ScalarOwned::Null => Value::Null,
            ScalarOwned::Boolean(value) => value.into(),
            ScalarOwned::Integer(value) => value.into(),
            ScalarOwned::FloatingPoint(value) => json!(value.into_inner()),
            ScalarOwned::String(value) => value.into(),
        },
        YamlOwned::Sequence(items) => Value::Array(items.into_iter().map(plain).collect::<Result<_, _>>()?),
        YamlOwned::Mapping(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let key = match plain(key)? {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                map.insert(key, plain(value)?);
            }
            Value::Object(map)
        }
        YamlOwned::Tagged(tag, inner) => {
            let inner = plain(*inner)?;
            match tag.suffix.as_str() {
                "Ref" => json!({ "Ref": inner }),
                "Condition" => json!({ "Condition": inner }),
                "GetAtt" => match inner.as_str().and_then(|text| text.split_once('.')) {
                    Some((resource, attribute)) => json!({ "Fn::GetAtt": [resource, attribute] }),
                    None => json!({ "Fn::GetAtt": inner }),
                },
                name => json!({ format!("Fn::{name}"): inner }),
            }
        }
        YamlOwned::Representation(text, ..) => text.into(),
        YamlOwned::Alias(_) | YamlOwned::BadValue => {
            return Err(TemplateError::NotYaml("an alias or a value that cannot be read".into()));
        }
    })
}

struct Resolver<'a> {
    template: &'a Value,
    parameters: &'a BTreeMap<String, String>,
}

impl Resolver<'_> {
    fn function(&self, id: &str, resource: &Value, globals: &Value) -> Result<Function, TemplateError> {
        let name = resource["Metadata"]["BuildProperties"]["Binary"]
            .as_str()
            .ok_or_else(|| TemplateError::Missing(format!("the Binary of {id}")))?;
        let mut function = Function {
            logical_id: id.to_owned(),
            name: name.to_owned(),
            environment: BTreeMap::new(),
            timeout_seconds: 3,
            routes: Vec::new(),
            schedules: Vec::new(),
            streams: Vec::new(),
        };
        for properties in [globals, &resource["Properties"]] {
            if let Some(seconds) = properties["Timeout"].as_u64() {
                function.timeout_seconds = seconds;
            }
            for (variable, value) in properties["Environment"]["Variables"].as_object().into_iter().flatten()
            {
                function.environment.insert(variable.clone(), self.text(value)?);
            }
        }
        for (event_id, event) in resource["Properties"]["Events"].as_object().into_iter().flatten() {
            let properties = &event["Properties"];
            match event["Type"].as_str() {
                Some("HttpApi") => function.routes.push(Route {
                    method: self.text(&properties["Method"])?.to_uppercase(),
                    path: self.text(&properties["Path"])?,
                }),
                Some("Schedule" | "ScheduleV2") => {
                    let expression = ["ScheduleExpression", "Schedule"]
                        .into_iter()
                        .find_map(|key| properties.get(key))
                        .ok_or_else(|| TemplateError::Missing(format!("the expression of {event_id}")))?;
                    let input = match properties.get("Input") {
                        Some(input) => serde_json::from_str(&self.text(input)?).map_err(|error| {
                            TemplateError::Unsupported(format!("the input of {event_id}: {error}"))
                        })?,
                        None => json!({}),
                    };
                    function.schedules.push(Schedule { expression: self.text(expression)?, input });
                }
                Some("DynamoDB") => function.streams.push(Stream {
                    table: self.stream_table(&properties["Stream"])?,
                    batch_size: properties["BatchSize"]
                        .as_i64()
                        .and_then(|size| size.try_into().ok())
                        .unwrap_or(100),
                    reports_failures: properties["FunctionResponseTypes"]
                        .as_array()
                        .is_some_and(|types| types.iter().any(|kind| kind == "ReportBatchItemFailures")),
                    filters: filters(properties)?,
                }),
                other => return Err(TemplateError::Unsupported(format!("an event of type {other:?}"))),
            }
        }
        function.routes.sort();
        Ok(function)
    }

    fn table_name(&self, id: &str) -> Result<String, TemplateError> {
        match self.template["Resources"][id]["Properties"].get("TableName") {
            Some(name) => self.text(name),
            None => Ok(id.to_owned()),
        }
    }

    fn stream_table(&self, value: &Value) -> Result<String, TemplateError> {
        match value["Fn::GetAtt"].as_array().map(Vec::as_slice) {
            Some([id, attribute]) if attribute == "StreamArn" => {
                self.table_name(id.as_str().unwrap_or_default())
            }
            _ => Err(TemplateError::Unsupported(format!("a stream given as {value}"))),
        }
    }

    fn text(&self, value: &Value) -> Result<String, TemplateError> {
        match self.value(value)? {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            Value::Bool(flag) => Ok(flag.to_string()),
            other => Err(TemplateError::Unsupported(format!("{other} where a text is needed"))),
        }
    }

    /// A value with its intrinsics carried out.
    fn value(&self, value: &Value) -> Result<Value, TemplateError> {
        match value {
            Value::Array(items) => {
                Ok(Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?))
            }
            Value::Object(map) => match map.iter().next() {
                Some((name, argument)) if map.len() == 1 && (name == "Ref" || name.starts_with("Fn::")) => {
                    self.intrinsic(name, argument)
                }
                _ => {
                    Ok(Value::Object(
                        map.iter()
                            .map(|(key, value)| Ok((key.clone(), self.value(value)?)))
                            .collect::<Result<_, TemplateError>>()?,
                    ))
                }
            },
            plain => Ok(plain.clone()),
        }
    }

    fn intrinsic(&self, name: &str, argument: &Value) -> Result<Value, TemplateError> {
        match (name, argument) {
            ("Ref", Value::String(target)) => self.reference(target).map(Value::String),
            ("Fn::Sub", Value::String(text)) => self.substitute(text).map(Value::String),
            ("Fn::GetAtt", Value::Array(parts)) => {
                Ok(Value::String(parts.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(".")))
            }
            ("Fn::If", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(condition), yes, no] => self
                    .value(if self.condition(&self.template["Conditions"][condition])? { yes } else { no }),
                _ => Err(TemplateError::Unsupported(format!("Fn::If of {argument}"))),
            },
            _ => Err(TemplateError::Unsupported(format!("{name} of {argument}"))),
        }
    }

    fn condition(&self, condition: &Value) -> Result<bool, TemplateError> {
        let unsupported = || TemplateError::Unsupported(format!("the condition {condition}"));
        let (name, argument) =
            condition.as_object().and_then(|map| map.iter().next()).ok_or_else(unsupported)?;
        let arguments = argument.as_array().map(Vec::as_slice).unwrap_or_default();
        match (name.as_str(), arguments) {
            ("Fn::Equals", [left, right]) => Ok(self.text(left)? == self.text(right)?),
            ("Fn::Not", [negated]) => Ok(!self.condition(negated)?),
            _ => Err(unsupported()),
        }
    }

    fn reference(&self, target: &str) -> Result<String, TemplateError> {
        if let Some(given) = self.parameters.get(target) {
            return Ok(given.clone());
        }
        if let Some(parameter) = self.template["Parameters"].get(target) {
            return match parameter.get("Default") {
                Some(default) => self.text(default),
                None => Err(TemplateError::Missing(format!("a value for the parameter {target}"))),
            };
        }
        match self.template["Resources"].get(target) {
            Some(resource) if resource["Type"] == "AWS::DynamoDB::Table" => self.table_name(target),
            Some(_) => Ok(target.to_owned()),
            None if target.starts_with("AWS::") => Ok(format!("local-{}", &target[5..])),
            None => Err(TemplateError::Missing(format!("{target}, which is referred to"))),
        }
    }

    fn substitute(&self, text: &str) -> Result<String, TemplateError> {
        let mut done = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (target, after) = after
                .split_once('}')
                .ok_or_else(|| TemplateError::Unsupported(format!("an open brace in {text:?}")))?;
            done.push_str(before);
            match target.split_once('.') {
                // An attribute of a resource, such as an ARN, means nothing here: its name stands for it.
                Some(_) => done.push_str(target),
                None => done.push_str(&self.reference(target)?),
            }
            rest = after;
        }
        done.push_str(rest);
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"
Parameters:
  Stage: { Type: String, Default: dev }
  Hot: { Type: String, Default: "no" }
Conditions:
  IsHot: !Equals [!Ref Hot, "yes"]
Globals:
  Function:
    Environment: { Variables: { STAGE: !Ref Stage, THINGS: !Ref Things, LEVEL: !If [IsHot, debug, info] } }
Resources:
  Things:
    Type: AWS::DynamoDB::Table
    Properties: { TableName: !Sub "${AWS::StackName}-things" }
  Worker:
    Type: AWS::Serverless::Function
    Metadata: { BuildProperties: { Binary: worker } }
    Properties:
      Timeout: 60
      Environment: { Variables: { EXTRA: !Sub "${Stage}/${Things.Arn}" } }
      Events:
        Get: { Type: HttpApi, Properties: { Path: "/things/{id}", Method: get } }
        Tick: { Type: ScheduleV2, Properties: { ScheduleExpression: rate(5 minutes), Input: '{"all":true}' } }
        Changes: { Type: DynamoDB, Properties: { Stream: !GetAtt Things.StreamArn, BatchSize: 10, FunctionResponseTypes: [ReportBatchItemFailures] } }
"#;

    fn resolve(parameters: &[(&str, &str)]) -> Result<Stack, TemplateError> {
        let parameters = parameters.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Template::parse(SAMPLE).unwrap().resolve(&parameters)
    }

    #[test]
    fn reads_functions_tables_and_what_triggers_them() {
        let stack = resolve(&[("AWS::StackName", "mine"), ("Hot", "yes")]).unwrap();
        assert_eq!(stack.tables[0].name, "mine-things");
        let worker = &stack.functions[0];
        assert_eq!((worker.name.as_str(), worker.timeout_seconds), ("worker", 60));
        assert_eq!(worker.environment["STAGE"], "dev");
        assert_eq!(worker.environment["THINGS"], "mine-things");
        assert_eq!(worker.environment["LEVEL"], "debug");
        assert_eq!(worker.environment["EXTRA"], "dev/Things.Arn");
        assert_eq!(worker.routes, [Route { method: "GET".into(), path: "/things/{id}".into() }]);
        assert_eq!(worker.schedules[0].period().unwrap().as_secs(), 300);
        assert_eq!(worker.schedules[0].input, json!({ "all": true }));
        assert_eq!(
            worker.streams,
            [Stream {
                table: "mine-things".into(),
                batch_size: 10,
                reports_failures: true,
                filters: Vec::new()
            }]
        );
    }

    #[test]
    fn filters_let_through_what_fits_one_of_them() {
        let filters =
            vec![json!({ "dynamodb": { "Keys": { "sk": { "S": [{ "prefix": "member#" }, "room"] } } } })];
        let stream = Stream { table: "rooms".into(), batch_size: 1, reports_failures: true, filters };
        let record = |sk: &str| json!({ "dynamodb": { "Keys": { "pk": { "S": "x" }, "sk": { "S": sk } } } });
        assert!(stream.takes(&record("member#7")) && stream.takes(&record("room")));
        assert!(
            !stream.takes(&record("rooms")) && !stream.takes(&record("tally")) && !stream.takes(&json!({}))
        );
    }

    #[test]
    fn says_what_it_does_not_know() {
        assert!(resolve(&[("Nonsense", "1")]).unwrap_err().to_string().contains("a parameter Nonsense"));
        assert!(Template::parse("a: [").is_err());
        let cron = Schedule { expression: "cron(0 0 * * ? *)".into(), input: Value::Null };
        assert!(cron.period().is_err());
    }
}
