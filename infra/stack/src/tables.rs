//! Creates the template's tables in a DynamoDB.

use std::fmt::Display;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, DisplayErrorContext, SdkError};
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::operation::create_table::builders::CreateTableFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, LocalSecondaryIndex,
    Projection, StreamSpecification, TableDescription, TimeToLiveSpecification,
};
use serde_json::Value;

use crate::resources::Table;

#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("the definition of the table {0} is not supported: {1}")]
    Unsupported(String, String),
    #[error("the table {0} could not be set up: {1}")]
    NotCreated(String, String),
    #[error("DynamoDB does not respond")]
    Unreachable,
    #[error("the table {0} exists, but its keys, indexes or stream differ from the template")]
    Differs(String),
}

impl TableError {
    fn unsupported(table: &Table, problem: &dyn Display) -> Self {
        Self::Unsupported(table.name.clone(), problem.to_string())
    }

    fn not_created(table: &Table, error: impl std::error::Error) -> Self {
        Self::NotCreated(table.name.clone(), DisplayErrorContext(error).to_string())
    }
}

/// Creates the missing tables. An existing table must have the template's keys, indexes and stream.
pub async fn create(client: &Client, tables: &[Table]) -> Result<(), TableError> {
    for table in tables {
        create_one(client, table).await?;
    }
    Ok(())
}

async fn create_one(client: &Client, table: &Table) -> Result<(), TableError> {
    let request = create_request(client, table).map_err(|error| TableError::unsupported(table, &error))?;
    match request.send().await {
        Ok(_) => enable_time_to_live(client, table).await,
        Err(SdkError::ServiceError(service))
            if matches!(service.err(), CreateTableError::ResourceInUseException(_)) =>
        {
            check_existing(client, table).await
        }
        Err(SdkError::DispatchFailure(_) | SdkError::TimeoutError(_)) => Err(TableError::Unreachable),
        Err(error) => Err(TableError::not_created(table, error)),
    }
}

fn create_request(client: &Client, table: &Table) -> Result<CreateTableFluentBuilder, BuildError> {
    let properties = &table.properties;
    let mut request = client.create_table().table_name(&table.name).billing_mode(BillingMode::PayPerRequest);
    for attribute in list(&properties["AttributeDefinitions"]) {
        request = request.attribute_definitions(
            AttributeDefinition::builder()
                .attribute_name(text(&attribute["AttributeName"]))
                .attribute_type(text(&attribute["AttributeType"]).into())
                .build()?,
        );
    }
    request = request.set_key_schema(Some(key_schema(&properties["KeySchema"])?));
    for index in list(&properties["GlobalSecondaryIndexes"]) {
        request = request.global_secondary_indexes(
            GlobalSecondaryIndex::builder()
                .index_name(text(&index["IndexName"]))
                .set_key_schema(Some(key_schema(&index["KeySchema"])?))
                .projection(projection(index))
                .build()?,
        );
    }
    for index in list(&properties["LocalSecondaryIndexes"]) {
        request = request.local_secondary_indexes(
            LocalSecondaryIndex::builder()
                .index_name(text(&index["IndexName"]))
                .set_key_schema(Some(key_schema(&index["KeySchema"])?))
                .projection(projection(index))
                .build()?,
        );
    }
    if let Some(view) = properties["StreamSpecification"]["StreamViewType"].as_str() {
        request = request.stream_specification(
            StreamSpecification::builder().stream_enabled(true).stream_view_type(view.into()).build()?,
        );
    }
    Ok(request)
}

async fn enable_time_to_live(client: &Client, table: &Table) -> Result<(), TableError> {
    let Some(attribute) = table.properties["TimeToLiveSpecification"]["AttributeName"].as_str() else {
        return Ok(());
    };
    let specification = TimeToLiveSpecification::builder()
        .attribute_name(attribute)
        .enabled(true)
        .build()
        .map_err(|error| TableError::unsupported(table, &error))?;
    client
        .update_time_to_live()
        .table_name(&table.name)
        .time_to_live_specification(specification)
        .send()
        .await
        .map_err(|error| TableError::not_created(table, error))?;
    Ok(())
}

/// Checks that an existing table matches the template. The local stack keeps tables in its data folder, so an
/// existing table may come from an older template.
async fn check_existing(client: &Client, table: &Table) -> Result<(), TableError> {
    let found = client.describe_table().table_name(&table.name).send().await;
    let found = found.map_err(|error| TableError::not_created(table, error))?.table;
    if found.is_some_and(|found| is_as_declared(&found, &table.properties)) {
        Ok(())
    } else {
        Err(TableError::Differs(table.name.clone()))
    }
}

fn is_as_declared(found: &TableDescription, declared: &Value) -> bool {
    let keys = |schema: &[KeySchemaElement]| -> Vec<String> {
        schema.iter().map(|key| key.attribute_name().to_owned()).collect()
    };
    let declared_keys = |schema: &Value| -> Vec<String> {
        list(schema).map(|key| text(&key["AttributeName"]).to_owned()).collect()
    };
    let global =
        found.global_secondary_indexes().iter().map(|index| (index.index_name(), index.key_schema()));
    let local = found.local_secondary_indexes().iter().map(|index| (index.index_name(), index.key_schema()));
    let mut indexes: Vec<_> = global
        .chain(local)
        .map(|(name, schema)| (name.unwrap_or_default().to_owned(), keys(schema)))
        .collect();
    indexes.sort();
    let mut declared_indexes: Vec<_> = ["GlobalSecondaryIndexes", "LocalSecondaryIndexes"]
        .into_iter()
        .flat_map(|kind| list(&declared[kind]))
        .map(|index| (text(&index["IndexName"]).to_owned(), declared_keys(&index["KeySchema"])))
        .collect();
    declared_indexes.sort();
    let has_stream = found.stream_specification().is_some_and(StreamSpecification::stream_enabled);
    keys(found.key_schema()) == declared_keys(&declared["KeySchema"])
        && indexes == declared_indexes
        && has_stream == declared.get("StreamSpecification").is_some()
}

fn projection(index: &Value) -> Projection {
    let projection = &index["Projection"];
    let names = projection["NonKeyAttributes"].as_array();
    Projection::builder()
        .projection_type(text(&projection["ProjectionType"]).into())
        .set_non_key_attributes(names.map(|names| names.iter().map(|name| text(name).to_owned()).collect()))
        .build()
}

fn key_schema(schema: &Value) -> Result<Vec<KeySchemaElement>, BuildError> {
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
