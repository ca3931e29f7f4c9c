//! Evaluates CloudFormation's intrinsic functions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::error::TemplateError;

/// Evaluates values of one template with one set of parameters.
pub(super) struct Evaluator<'a> {
    pub template: &'a Value,
    pub parameters: &'a BTreeMap<String, String>,
}

impl Evaluator<'_> {
    /// Evaluates every intrinsic function in a value.
    pub fn value(&self, value: &Value) -> Result<Value, TemplateError> {
        match value {
            Value::Array(items) => {
                Ok(Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?))
            }
            Value::Object(map) => match map.iter().next() {
                Some((name, argument)) if map.len() == 1 && (name == "Ref" || name.starts_with("Fn::")) => {
                    self.intrinsic(name, argument)
                }
                _ => {
                    let entries = map.iter().map(|(name, value)| Ok((name.clone(), self.value(value)?)));
                    Ok(Value::Object(entries.collect::<Result<_, TemplateError>>()?))
                }
            },
            scalar => Ok(scalar.clone()),
        }
    }

    /// Evaluates a value and returns it as text. The result must be a scalar.
    pub fn text(&self, value: &Value) -> Result<String, TemplateError> {
        match self.value(value)? {
            Value::String(text) => Ok(text),
            Value::Number(number) => Ok(number.to_string()),
            Value::Bool(flag) => Ok(flag.to_string()),
            other => Err(TemplateError::Unsupported(format!("{other} where a string is expected"))),
        }
    }

    /// Returns the name of the table whose logical id is `id`.
    pub fn table_name(&self, id: &str) -> Result<String, TemplateError> {
        match self.template["Resources"][id]["Properties"].get("TableName") {
            Some(name) => self.text(name),
            None => Ok(id.to_owned()),
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
            ("Fn::Split", Value::Array(parts)) => match parts.as_slice() {
                [Value::String(separator), text] => Ok(self.text(text)?.split(separator.as_str()).collect()),
                _ => Err(TemplateError::Unsupported(format!("Fn::Split of {argument}"))),
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
            None => Err(TemplateError::Missing(format!("{target}, which it refers to"))),
        }
    }

    fn substitute(&self, text: &str) -> Result<String, TemplateError> {
        let mut done = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (target, after) = after
                .split_once('}')
                .ok_or_else(|| TemplateError::Unsupported(format!("an unclosed brace in {text:?}")))?;
            done.push_str(before);
            match target.split_once('.') {
                // Attributes of resources, such as ARNs, are not evaluated: `${Things.Arn}` becomes the text
                // `Things.Arn`.
                Some(_) => done.push_str(target),
                None => done.push_str(&self.reference(target)?),
            }
            rest = after;
        }
        done.push_str(rest);
        Ok(done)
    }
}
