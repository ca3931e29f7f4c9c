//! Reads YAML as JSON, with CloudFormation's short tags in their long form.

use saphyr::{LoadableYamlNode as _, ScalarOwned, YamlOwned};
use serde_json::{Map, Value, json};

#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    #[error("not valid YAML: {0}")]
    Invalid(String),
    #[error("the YAML document is empty")]
    Empty,
}

/// Converts the first document of a YAML text to JSON. `!Ref x` becomes `{"Ref": "x"}`.
pub fn parse(text: &str) -> Result<Value, YamlError> {
    let documents = YamlOwned::load_from_str(text).map_err(|error| YamlError::Invalid(error.to_string()))?;
    to_json(documents.into_iter().next().ok_or(YamlError::Empty)?)
}

fn to_json(node: YamlOwned) -> Result<Value, YamlError> {
    Ok(match node {
        YamlOwned::Value(scalar) => match scalar {
            ScalarOwned::Null => Value::Null,
            ScalarOwned::Boolean(value) => value.into(),
            ScalarOwned::Integer(value) => value.into(),
            ScalarOwned::FloatingPoint(value) => json!(value.into_inner()),
            ScalarOwned::String(value) => value.into(),
        },
        YamlOwned::Sequence(items) => Value::Array(items.into_iter().map(to_json).collect::<Result<_, _>>()?),
        YamlOwned::Mapping(entries) => {
            let mut map = Map::new();
            for (key, value) in entries {
                let key = match to_json(key)? {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                map.insert(key, to_json(value)?);
            }
            Value::Object(map)
        }
        YamlOwned::Tagged(tag, inner) => long_form(&tag.suffix, &to_json(*inner)?),
        YamlOwned::Representation(text, ..) => text.into(),
        YamlOwned::Alias(_) | YamlOwned::BadValue => {
            return Err(YamlError::Invalid("aliases and unreadable values are not supported".into()));
        }
    })
}

/// Converts an intrinsic function from its short form to its long form: `!Sub x` becomes `{"Fn::Sub": "x"}`.
fn long_form(tag: &str, argument: &Value) -> Value {
    match tag {
        "Ref" => json!({ "Ref": argument }),
        "Condition" => json!({ "Condition": argument }),
        "GetAtt" => match argument.as_str().and_then(|text| text.split_once('.')) {
            Some((resource, attribute)) => json!({ "Fn::GetAtt": [resource, attribute] }),
            None => json!({ "Fn::GetAtt": argument }),
        },
        name => json!({ format!("Fn::{name}"): argument }),
    }
}
