//! Checks that the template follows our rules: roles without wildcards, tables that can be restored, logs
//! with a retention time, alarms for every function.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use touchline::config::{SECRET_VARIABLES, secret_id};
use touchline_stack::template::Template;
use touchline_stack::{TEMPLATE, yaml};

fn resources() -> Map<String, Value> {
    yaml::parse(TEMPLATE).unwrap()["Resources"].as_object().unwrap().clone()
}

fn of_type(kind: &str) -> BTreeMap<String, Value> {
    let resources = resources().into_iter().filter(|(_, resource)| resource["Type"] == kind);
    resources.map(|(id, resource)| (id, resource["Properties"].clone())).collect()
}

fn functions() -> BTreeMap<String, Value> {
    of_type("AWS::Serverless::Function")
}

fn list(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(values) => values.iter().collect(),
        Value::Null => Vec::new(),
        value => vec![value],
    }
}

fn serves_http(function: &Value) -> bool {
    function["Events"].as_object().into_iter().flatten().any(|(_, event)| event["Type"] == "HttpApi")
}

/// Otherwise codes could be sent to expensive numbers in any country.
#[test]
fn production_cannot_be_deployed_without_a_choice_of_countries() {
    let rule = yaml::parse(TEMPLATE).unwrap()["Rules"]["CountriesAreChosen"].clone();
    let equals = |left: &str, right: &str| json!({ "Fn::Equals": [{ "Ref": left }, right] });
    assert_eq!(rule["RuleCondition"], equals("Environment", "production"));
    let assertions = list(&rule["Assertions"]);
    assert_eq!(assertions[0]["Assert"], json!({ "Fn::Not": [equals("PhonePrefixes", "")] }));
}

/// DynamoDB throttles streams with more readers.
#[test]
fn a_stream_has_at_most_two_readers() {
    let mut readers = BTreeMap::<String, usize>::new();
    for function in functions().values() {
        for event in function["Events"].as_object().into_iter().flat_map(Map::values) {
            if event["Type"] == "DynamoDB" {
                *readers.entry(event["Properties"]["Stream"].to_string()).or_default() += 1;
            }
        }
    }
    assert!(!readers.is_empty() && readers.values().all(|count| *count <= 2), "{readers:?}");
}

fn statements(function: &Value) -> Vec<&Value> {
    let statements = list(&function["Policies"]).into_iter().flat_map(|policy| list(&policy["Statement"]));
    statements.map(|statement| statement["Fn::If"].get(1).unwrap_or(statement)).collect()
}

/// Returns the DynamoDB actions that a function's role allows, such as
/// `dynamodb:Query RoomsTable/index/by_user`.
pub fn allowed(function: &Value) -> BTreeSet<String> {
    let mut allowed = BTreeSet::new();
    for statement in statements(function) {
        for action in list(&statement["Action"]) {
            for resource in list(&statement["Resource"]) {
                let action = action.as_str().unwrap();
                if action.starts_with("dynamodb:") {
                    allowed.insert(format!("{action} {}", named(resource)));
                }
            }
        }
    }
    allowed
}

/// Returns the resource that `!GetAtt RoomsTable.Arn` or `!Sub "${RoomsTable.Arn}/index/by_user"` names,
/// without ARN syntax.
fn named(resource: &Value) -> String {
    if let Some(parts) = resource["Fn::GetAtt"].as_array() {
        return parts[0].as_str().unwrap().to_owned();
    }
    if let Some(name) = resource["Fn::GetAtt"].as_str() {
        return name.trim_end_matches(".Arn").to_owned();
    }
    let text = resource["Fn::Sub"].as_str().unwrap_or_else(|| panic!("unknown kind of resource: {resource}"));
    text.replace("${", "").replace(".Arn}", "")
}

#[test]
fn no_role_has_a_wildcard_action_or_resource() {
    for (id, function) in functions() {
        assert!(!statements(&function).is_empty(), "{id} has no policy");
        for statement in statements(&function) {
            for action in list(&statement["Action"]) {
                assert!(!action.as_str().unwrap().contains('*'), "{id} has {action}");
            }
        }
    }
    assert!(!TEMPLATE.contains("Resource: \"*\""));
    assert!(!TEMPLATE.contains("ManagedPolicyArns") && !TEMPLATE.contains("Principal: \"*\""));
}

/// `standings` calls itself with many users. No function may call another one.
#[test]
fn a_function_can_invoke_only_itself() {
    let invokes = |statement: &&Value| {
        list(&statement["Action"]).iter().any(|action| **action == "lambda:InvokeFunction")
    };
    for (id, function) in functions() {
        for statement in statements(&function).into_iter().filter(invokes) {
            assert_eq!(id, "StandingsFunction");
            let own = "arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:${AWS::StackName}-StandingsFunction-*";
            assert_eq!(statement["Resource"]["Fn::Sub"], own);
        }
    }
    let reserved = &functions()["StandingsFunction"]["ReservedConcurrentExecutions"]["Fn::If"][1];
    assert_eq!(*reserved, 66, "a run and 64 workers");
}

/// A text message has no resource. Without an exception, the permission would include every topic of the account.
#[test]
fn functions_that_send_text_messages_cannot_publish_to_a_topic() {
    let functions = functions();
    let sends =
        |statement: &&Value| list(&statement["Action"]).iter().any(|action| **action == "sns:Publish");
    let sending: Vec<&Value> = functions.values().flat_map(statements).filter(sends).collect();
    assert_eq!(sending.len(), 3, "login, profile and erasure");
    assert_eq!(TEMPLATE.matches("NotResource").count(), 3);
    for statement in sending {
        assert_eq!(statement["NotResource"]["Fn::Sub"], "arn:${AWS::Partition}:sns:*:*:*");
    }
}

#[test]
fn every_table_can_be_restored_and_outlives_the_stack() {
    for (id, resource) in
        resources().iter().filter(|(_, resource)| resource["Type"] == "AWS::DynamoDB::Table")
    {
        let properties = &resource["Properties"];
        assert_eq!(
            properties["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true,
            "{id}"
        );
        let protection = &properties["DeletionProtectionEnabled"]["Fn::If"];
        assert_eq!(protection, &json!(["ProtectsTables", true, false]), "{id}");
        assert_eq!(properties["SSESpecification"]["SSEEnabled"], true, "{id}");
        assert_eq!(
            (&resource["DeletionPolicy"], &resource["UpdateReplacePolicy"]),
            (&"RetainExceptOnCreate".into(), &"Retain".into())
        );
    }
}

/// A new account may run only about ten executions at once, and Lambda keeps that many unreserved. A table with
/// deletion protection would stay behind if the first deployment fails.
#[test]
fn the_default_parameters_suit_an_empty_account() {
    let parameters = BTreeMap::from([("AWS::StackName".to_owned(), "mine".to_owned())]);
    let stack = Template::parse(TEMPLATE).unwrap().resolve(&parameters).unwrap();
    for function in &stack.functions {
        assert_eq!(function.reserved_concurrency, None, "{}", function.name);
    }
    assert_eq!(yaml::parse(TEMPLATE).unwrap()["Parameters"]["ProtectTables"]["Default"], "no");
}

/// `docs/operations.md` says which values a final needs.
#[test]
fn parameters_set_what_a_final_needs() {
    let (reads, writes) = (json!({ "Ref": "WarmReadsPerSecond" }), json!({ "Ref": "WarmWritesPerSecond" }));
    let only_reads = json!({ "ReadUnitsPerSecond": reads });
    let only_writes = json!({ "WriteUnitsPerSecond": writes });
    let both = json!({ "ReadUnitsPerSecond": reads, "WriteUnitsPerSecond": writes });
    let standings = json!({
        "ReadUnitsPerSecond": reads, "WriteUnitsPerSecond": { "Ref": "WarmStandingsWritesPerSecond" },
    });
    let tables = of_type("AWS::DynamoDB::Table");
    for (table, index, warm) in [
        ("UsersTable", None, &only_reads),
        ("CatalogTable", None, &only_reads),
        ("PredictionsTable", None, &both),
        ("PredictionsTable", Some("by_user"), &only_writes),
        ("RoomsTable", Some("by_user"), &only_reads),
        ("StandingsTable", None, &standings),
    ] {
        let of_index = |name| {
            let indexes = list(&tables[table]["GlobalSecondaryIndexes"]);
            indexes.into_iter().find(|index| index["IndexName"] == name).unwrap()
        };
        let resource = index.map_or(&tables[table], of_index);
        assert_eq!(resource["WarmThroughput"]["Fn::If"][1], *warm, "{table} {index:?}");
    }
    let functions = functions();
    assert_eq!(functions["TallyFunction"]["MemorySize"]["Ref"], "TallyMemory");
    let variables = &functions["FeedFunction"]["Environment"]["Variables"];
    assert_eq!(variables["FEATURED_SHARDS"]["Ref"], "FeaturedShards");
    let routes = &of_type("AWS::Serverless::HttpApi")["Api"]["DefaultRouteSettings"];
    assert_eq!(routes["ThrottlingRateLimit"]["Ref"], "RequestsPerSecond");
    assert_eq!(routes["ThrottlingBurstLimit"]["Ref"], "RequestsAtOnce");
}

#[test]
fn every_function_has_a_log_with_a_retention_time() {
    let logs = of_type("AWS::Logs::LogGroup");
    for (id, log) in &logs {
        assert!(!log["RetentionInDays"].is_null(), "{id} has no retention time");
    }
    for id in functions().keys() {
        let name = format!("/aws/lambda/${{{id}}}");
        assert!(logs.values().any(|log| log["LogGroupName"]["Fn::Sub"] == *name), "{id} has no log group");
    }
}

/// The variables of API Gateway that the access log may contain. Others contain phone numbers, such as the path, or tokens.
const LOGGED: [&str; 9] = [
    "requestId",
    "requestTime",
    "identity.sourceIp",
    "identity.userAgent",
    "routeKey",
    "status",
    "responseLatency",
    "responseLength",
    "error.messageString",
];

#[test]
fn the_access_log_of_the_api_has_no_path_query_or_header() {
    let api = &of_type("AWS::Serverless::HttpApi")["Api"];
    let settings = &api["AccessLogSettings"];
    assert_eq!(settings["DestinationArn"]["Fn::GetAtt"][0], "AccessLogs");
    let format: Value = serde_json::from_str(settings["Format"].as_str().unwrap()).unwrap();
    let logged: BTreeSet<&str> = format
        .as_object()
        .unwrap()
        .values()
        .map(|value| value.as_str().unwrap().strip_prefix("$context.").expect("a variable of API Gateway"))
        .collect();
    assert_eq!(logged, BTreeSet::from(LOGGED));
}

#[test]
fn every_function_has_alarms_that_roll_its_deployment_back() {
    let alarms = of_type("AWS::CloudWatch::Alarm");
    for (id, alarm) in &alarms {
        assert_eq!(alarm["AlarmActions"][0]["Ref"], "Alarms", "{id} notifies nobody");
        assert!(alarm["AlarmDescription"].is_string(), "{id} has no description");
    }
    for (id, function) in functions() {
        let on = |metric: &str| {
            let is_on = |alarm: &&Value| {
                alarm["MetricName"] == metric && alarm["Dimensions"][0]["Value"]["Ref"] == *id
            };
            alarms.iter().find(|(_, alarm)| is_on(alarm)).map(|(name, _)| name.clone())
        };
        let errors = on("Errors").unwrap_or_else(|| panic!("{id} has no alarm for its errors"));
        assert!(on("Throttles").is_some(), "{id} has no alarm for its throttles");
        let rolled_back_by = |alarm: &str| {
            list(&function["DeploymentPreference"]["Alarms"]).iter().any(|one| one["Ref"] == *alarm)
        };
        assert!(rolled_back_by(&errors), "{id}");
        assert_eq!(
            function["AutoPublishAliasAllProperties"], true,
            "{id}: a changed variable would not publish a new version"
        );
        // Lambda counts a response of 500 as a success. A function with endpoints therefore also needs an alarm
        // for our metric `Failures`, which counts such responses.
        if serves_http(&function) {
            let counts = |alarm: &Value| {
                let dimensions = list(&alarm["Dimensions"]);
                alarm["MetricName"] == "Failures" && dimensions.iter().any(|one| one["Value"]["Ref"] == *id)
            };
            let failures = alarms.iter().find(|(_, alarm)| counts(alarm)).map(|(name, _)| name);
            assert!(
                rolled_back_by(failures.unwrap_or_else(|| panic!("{id} has no alarm for its failures"))),
                "{id}"
            );
        }
    }
    assert!(
        of_type("AWS::SNS::Topic").values().all(|topic| topic["KmsMasterKeyId"].is_null()),
        "CloudWatch cannot publish to a topic that is encrypted with the default key"
    );
    let globals = &yaml::parse(TEMPLATE).unwrap()["Globals"]["Function"];
    assert!(globals["Environment"]["Variables"]["REVISION"].is_string(), "infra/deploy sets REVISION");
}

/// A lost change makes no request fail. Without these alarms, nobody would notice it.
#[test]
fn lost_and_repaired_changes_ring_an_alarm() {
    let alarms = of_type("AWS::CloudWatch::Alarm");
    for (metric, watched) in [
        ("IteratorAge", "TallyFunction"),
        ("SetAside", "TallyFunction"),
        ("ApproximateNumberOfMessagesVisible", "TallyFailures"),
        ("Repairs", "RecountFunction"),
        ("OverdueWork", "ErasureFunction"),
        ("ApproximateNumberOfMessagesVisible", "ErasureFailures"),
    ] {
        let is_on = |alarm: &Value| {
            alarm["MetricName"] == metric && alarm["Dimensions"].to_string().contains(watched)
        };
        assert!(alarms.values().any(is_on), "no alarm is on {metric} of {watched}");
    }
}

#[test]
fn every_stream_mapping_retries_failed_records_and_then_sends_them_to_a_queue() {
    for (id, function) in functions() {
        for (event, mapping) in function["Events"].as_object().into_iter().flatten() {
            if mapping["Type"] != "DynamoDB" {
                continue;
            }
            let settings = &mapping["Properties"];
            assert_eq!(settings["BisectBatchOnFunctionError"], true, "{id} {event}");
            assert_eq!(settings["FunctionResponseTypes"][0], "ReportBatchItemFailures", "{id} {event}");
            assert_eq!(settings["DestinationConfig"]["OnFailure"]["Type"], "SQS", "{id} {event}");
            assert_eq!(settings["ParallelizationFactor"], 1, "{id} {event}");
            assert!(!settings["FilterCriteria"].is_null(), "{id} {event} has no filter");
        }
    }
}

#[test]
fn no_secret_is_a_parameter_and_only_functions_that_need_a_secret_get_it() {
    let template = yaml::parse(TEMPLATE).unwrap();
    assert!(!TEMPLATE.contains("NoEcho"), "a secret must not be a parameter");
    let globals = template["Globals"]["Function"]["Environment"]["Variables"].to_string();
    assert!(!globals.contains("secretsmanager"), "a secret must not be given to every function: {globals}");
    let functions_with = |variable: &str| -> Vec<String> {
        let has = |function: &Value| !function["Environment"]["Variables"][variable].is_null();
        functions().into_iter().filter(|(_, function)| has(function)).map(|(id, _)| id).collect()
    };
    assert_eq!(functions_with("CODE_PEPPER"), ["LoginFunction", "ProfileFunction"]);
    assert_eq!(
        functions_with("CHAT_AS_TOKEN"),
        [
            "ChatFunction",
            "ErasureFunction",
            "FeedFunction",
            "LoginFunction",
            "ModerationFunction",
            "ProfileFunction",
        ]
    );
    assert_eq!(functions_with("CHAT_HS_TOKEN"), ["ChatFunction"]);
    assert_eq!(functions_with("CHAT_ADMIN_TOKEN"), ["ErasureFunction", "ModerationFunction"]);
    assert_eq!(functions_with("FEED_TOKEN"), ["FeedFunction"]);
    assert_eq!(functions_with("SMS_LOG_SECRET"), ["SmsLogsFunction"]);
    assert_eq!(functions_with("TEST_PHONES"), ["LoginFunction", "ProfileFunction"]);
    let serving: Vec<String> =
        functions().into_iter().filter(|(_, function)| serves_http(function)).map(|(id, _)| id).collect();
    assert_eq!(functions_with("ORIGIN_SECRETS"), serving, "a function without it serves everyone");
}

/// Everyone who can read the settings of a function sees its variables. So a variable names the secret, and the function
/// fetches it. The role allows that for these secrets, under the same condition, and for no others.
#[test]
fn variables_name_secrets_that_the_role_of_the_function_can_read() {
    const ORIGIN: &str =
        "arn:${AWS::Partition}:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:${OriginSecret}-??????";
    assert!(!TEMPLATE.contains("{{resolve:"), "a secret must not be the value of a variable");
    for (id, function) in functions() {
        let named = SECRET_VARIABLES.into_iter().filter_map(|variable| {
            let value = &function["Environment"]["Variables"][variable];
            let (condition, name) = match value["Fn::If"].as_array().map(Vec::as_slice) {
                Some([condition, name, empty]) => {
                    assert_eq!(empty, "", "{id} {variable}");
                    (condition, name)
                }
                _ => (&Value::Null, value),
            };
            let parameter =
                secret_id(name["Fn::Sub"].as_str()?)?.trim_start_matches("${").trim_end_matches('}');
            // The parameters are ARNs, except one. A name becomes an ARN with six more characters.
            let resource = match parameter {
                "OriginSecret" => json!({ "Fn::Sub": ORIGIN }),
                _ if of_type("AWS::SecretsManager::Secret").contains_key(parameter) => {
                    json!({ "Fn::GetAtt": [parameter, "Id"] })
                }
                _ => json!({ "Ref": parameter }),
            };
            Some((condition.clone(), resource))
        });
        let policies = list(&function["Policies"]);
        let readable =
            policies.iter().flat_map(|policy| list(&policy["Statement"])).filter_map(|statement| {
                let statement_if_set = statement["Fn::If"].get(1).unwrap_or(statement);
                let reads = statement_if_set["Action"] == "secretsmanager:GetSecretValue";
                reads.then(|| (statement["Fn::If"][0].clone(), statement_if_set["Resource"].clone()))
            });
        let sorted = |pairs: Vec<(Value, Value)>| {
            pairs.iter().map(|pair| format!("{pair:?}")).collect::<BTreeSet<_>>()
        };
        assert_eq!(sorted(readable.collect()), sorted(named.collect()), "{id}");
        for (variable, value) in function["Environment"]["Variables"].as_object().into_iter().flatten() {
            let is_known = SECRET_VARIABLES.contains(&variable.as_str());
            assert!(
                is_known || !value.to_string().contains("secretsmanager:"),
                "{id} {variable} is not fetched"
            );
        }
    }
}
