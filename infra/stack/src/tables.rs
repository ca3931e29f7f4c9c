//! Makes the template's tables on any DynamoDB.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, LocalSecondaryIndex,
    Projection, StreamSpecification, TimeToLiveSpecification,
};
use serde_json::Value;

use crate::template::Table;

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("the table {0} is not described in a way that is understood here: {1}")]
    Unclear(String, String),
    #[error("the table {0} could not be made: {1}")]
    NotMade(String, String),
    #[error("the store does not answer")]
    NoAnswer,
    #[error("the table {0} exists with other keys, indexes or streams than the template's")]
    Differs(String),
}

/// Creates the tables that are not there yet; one that is there must be as the template says.
pub async fn create(client: &Client, tables: &[Table]) -> Result<(), TableError> {
    for table in tables {
        create_one(client, table).await?;
    }
    Ok(())
}

async fn create_one(client: &Client, table: &Table) -> Result<(), TableError> {
    let unclear = |what: &dyn std::fmt::Display| TableError::Unclear(table.name.clone(), what.to_string());
    let properties = &table.properties;
    let mut request = client.create_table().table_name(&table.name).billing_mode(BillingMode::PayPerRequest);
    for attribute in list(&properties["AttributeDefinitions"]) {
        request = request.attribute_definitions(
            AttributeDefinition::builder()
                .attribute_name(text(&attribute["AttributeName"]))
                .attribute_type(text(&attribute["AttributeType"]).into())
                .build()
                .map_err(|error| unclear(&error))?,
        );
    }
    for element in key_schema(&properties["KeySchema"]).map_err(|error| unclear(&error))? {
        request = request.key_schema(element);
    }
    for index in list(&properties["GlobalSecondaryIndexes"]) {
        request = request.global_secondary_indexes(
            GlobalSecondaryIndex::builder()
                .index_name(text(&index["IndexName"]))
                .set_key_schema(Some(key_schema(&index["KeySchema"]).map_err(|error| unclear(&error))?))
                .projection(projection(index))
                .build()
                .map_err(|error| unclear(&error))?,
        );
    }
    for index in list(&properties["LocalSecondaryIndexes"]) {
        request = request.local_secondary_indexes(
            LocalSecondaryIndex::builder()
                .index_name(text(&index["IndexName"]))
                .set_key_schema(Some(key_schema(&index["KeySchema"]).map_err(|error| unclear(&error))?))
                .projection(projection(index))
                .build()
                .map_err(|error| unclear(&error))?,
        );
    }
    if let Some(view) = properties["StreamSpecification"]["StreamViewType"].as_str() {
        request = request.stream_specification(
            StreamSpecification::builder()
                .stream_enabled(true)
                .stream_view_type(view.into())
                .build()
                .map_err(|error| unclear(&error))?,
        );
    }
    match request.send().await {
        Ok(_) => {}
        Err(SdkError::ServiceError(service))
            if matches!(service.err(), CreateTableError::ResourceInUseException(_)) =>
        {
            return compare(client, table).await;
        }
        Err(SdkError::DispatchFailure(_) | SdkError::TimeoutError(_)) => return Err(TableError::NoAnswer),
        Err(error) => {
            return Err(TableError::NotMade(table.name.clone(), DisplayErrorContext(error).to_string()));
        }
    }
    if let Some(attribute) = properties["TimeToLiveSpecification"]["AttributeName"].as_str() {
        let specification = TimeToLiveSpecification::builder()
            .attribute_name(attribute)
            .enabled(true)
            .build()
            .map_err(|error| unclear(&error))?;
        client
            .update_time_to_live()
            .table_name(&table.name)
            .time_to_live_specification(specification)
            .send()
            .await
            .map_err(|error| {
                TableError::NotMade(table.name.clone(), DisplayErrorContext(error).to_string())
            })?;
    }
    Ok(())
}

/// A data folder may be older than the template.
async fn compare(client: &Client, table: &Table) -> Result<(), TableError> {
    let found =
        client.describe_table().table_name(&table.name).send().await.map_err(|error| {
            TableError::NotMade(table.name.clone(), DisplayErrorContext(error).to_string())
        })?;
    let Some(found) = found.table else { return Err(TableError::Differs(table.name.clone())) };
    let keys = |schema: &[KeySchemaElement]| -> Vec<String> {
        schema.iter().map(|key| key.attribute_name().to_owned()).collect()
    };
    let wanted_keys = |schema: &Value| -> Vec<String> {
        list(schema).map(|key| text(&key["AttributeName"]).to_owned()).collect()
    };
    let mut indexes: Vec<_> = found
        .global_secondary_indexes()
        .iter()
        .map(|index| (index.index_name().unwrap_or_default().to_owned(), keys(index.key_schema())))
        .collect();
    indexes.extend(
        found
            .local_secondary_indexes()
            .iter()
            .map(|index| (index.index_name().unwrap_or_default().to_owned(), keys(index.key_schema()))),
    );
    indexes.sort();
    let mut wanted_indexes: Vec<_> = ["GlobalSecondaryIndexes", "LocalSecondaryIndexes"]
        .into_iter()
        .flat_map(|kind| list(&table.properties[kind]))
        .map(|index| (text(&index["IndexName"]).to_owned(), wanted_keys(&index["KeySchema"])))
        .collect();
    wanted_indexes.sort();
    let streams = found.stream_specification().is_some_and(StreamSpecification::stream_enabled);
    let same = keys(found.key_schema()) == wanted_keys(&table.properties["KeySchema"])
        && indexes == wanted_indexes
        && streams == table.properties.get("StreamSpecification").is_some();
    if same { Ok(()) } else { Err(TableError::Differs(table.name.clone())) }
}

fn projection(index: &Value) -> Projection {
    let projection = &index["Projection"];
    let names = projection["NonKeyAttributes"].as_array();
    Projection::builder()
        .projection_type(text(&projection["ProjectionType"]).into())
        .set_non_key_attributes(names.map(|names| names.iter().map(|name| text(name).to_owned()).collect()))
        .build()
}

fn key_schema(schema: &Value) -> Result<Vec<KeySchemaElement>, aws_sdk_dynamodb::error::BuildError> {
    list(schema)
        .map(|key| {
            KeySchemaElement::builder()
                .attribute_name(text(&key["AttributeName"]))
                .key_type(text(&key["KeyType"]).into())
                .build()
        })
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
