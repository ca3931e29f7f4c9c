use super::*;

const SAMPLE: &str = r#"
Parameters:
  Stage: { Type: String, Default: dev }
  Hot: { Type: String, Default: "no" }
  Rate: { Type: Number, Default: 50 }
  Origins: { Type: String, Default: "" }
Conditions:
  HasOrigins: !Not [!Equals [!Ref Origins, ""]]
  IsHot: !Equals [!Ref Hot, "yes"]
Globals:
  Function:
    Environment: { Variables: { STAGE: !Ref Stage, THINGS: !Ref Things, LEVEL: !If [IsHot, debug, info] } }
Resources:
  Api:
    Type: AWS::Serverless::HttpApi
    Properties:
      DefaultRouteSettings: { ThrottlingRateLimit: !Ref Rate, ThrottlingBurstLimit: 20 }
      CorsConfiguration: !If [HasOrigins, { AllowOrigins: !Split [",", !Ref Origins], AllowMethods: [GET], MaxAge: 5 }, !Ref AWS::NoValue]
  Things:
    Type: AWS::DynamoDB::Table
    Properties: { TableName: !Sub "${AWS::StackName}-things" }
  Worker:
    Type: AWS::Serverless::Function
    Metadata: { BuildProperties: { Binary: worker } }
    Properties:
      Timeout: 60
      MemorySize: 512
      ReservedConcurrentExecutions: !If [IsHot, 3, !Ref AWS::NoValue]
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
fn a_resolved_function_has_its_environment_and_triggers() {
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
        [StreamMapping {
            table: "mine-things".into(),
            batch_size: 10,
            reports_failures: true,
            filters: Vec::new()
        }]
    );
}

#[test]
fn limits_are_numbers_or_missing() {
    let stack = resolve(&[("Hot", "yes"), ("Rate", "70")]).unwrap();
    assert_eq!(stack.route_throttle, Some(Throttle { rate: 70.0, burst: 20.0 }));
    assert_eq!((stack.functions[0].memory_mb, stack.functions[0].reserved_concurrency), (512, Some(3)));
    assert_eq!(resolve(&[]).unwrap().functions[0].reserved_concurrency, None);
}

#[test]
fn unknown_parameters_are_rejected() {
    assert!(resolve(&[("Unknown", "1")]).unwrap_err().to_string().contains("a parameter Unknown"));
}

#[test]
fn invalid_yaml_is_rejected() {
    assert!(matches!(Template::parse("a: ["), Err(TemplateError::Yaml(_))));
}

#[test]
fn the_api_has_cors_only_with_origins() {
    assert_eq!(resolve(&[]).unwrap().cors, None);
    let cors = resolve(&[("Origins", "https://a.example,https://b.example")]).unwrap().cors.unwrap();
    assert_eq!(cors.origins, ["https://a.example", "https://b.example"]);
    assert_eq!((cors.methods, cors.headers, cors.max_age_seconds), (vec!["GET".to_owned()], Vec::new(), 5));
}
