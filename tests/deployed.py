"""Commands of tests/deployed. `adapt-template` needs the SAM CLI's Python packages, the others those of
tests/real-components.txt."""

import json
import pathlib
import re
import sys


def adapt_template(source, destination):
    """Removes what ministack does not support: CodeDeploy, and alarms on metric expressions. Also allows
    BatchExecuteStatement. For a batch of PartiQL statements, AWS checks the permission for each statement, but
    ministack checks the permission for the batch."""
    from samcli.yamlhelper import yaml_dump, yaml_parse

    template = yaml_parse(pathlib.Path(source).read_text())
    del template["Globals"]["Function"]["DeploymentPreference"]
    for name, resource in list(template["Resources"].items()):
        properties = resource.get("Properties", {})
        properties.pop("DeploymentPreference", None)
        for policy in properties.get("Policies", []):
            if "dynamodb:PartiQLUpdate" in json.dumps(policy):
                batch = {"Effect": "Allow", "Action": "dynamodb:BatchExecuteStatement", "Resource": "*"}
                policy["Statement"].append(batch)
        if resource["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in properties:
            del template["Resources"][name]
    pathlib.Path(destination).write_text(yaml_dump(template))


def connect_api(stack, folder, endpoint):
    """Creates the API's routes from the processed template, because ministack does not. Then writes what the HTTP suite
    needs into files in `folder`: the API's URL, the functions' names and the homeserver's token."""
    import botocore.session

    session = botocore.session.get_session()
    cloudformation, gateway = session.create_client("cloudformation"), session.create_client("apigatewayv2")
    resources = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
    names = {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}
    template = cloudformation.get_template(StackName=stack, TemplateStage="Processed")["TemplateBody"]
    template = json.loads(template) if isinstance(template, str) else template
    routes = 0
    for path, methods in template["Resources"]["Api"]["Properties"]["Body"]["paths"].items():
        for method, operation in methods.items():
            integration = operation["x-amazon-apigateway-integration"]
            function = re.search(r"/functions/\$\{(\w+)\}/", integration["uri"]["Fn::Sub"])[1]
            created = gateway.create_integration(
                ApiId=names["Api"],
                IntegrationType="AWS_PROXY",
                IntegrationUri=names[function],
                PayloadFormatVersion=integration["payloadFormatVersion"],
            )
            target = "integrations/" + created["IntegrationId"]
            gateway.create_route(ApiId=names["Api"], RouteKey=f"{method.upper()} {path}", Target=target)
            routes += 1

    aliases = ((re.fullmatch(r"(\w+)FunctionAliaslive", name), alias) for name, alias in names.items())
    functions = {re.sub(r"\B([A-Z])", r"-\1", found[1]).lower(): alias for found, alias in aliases if found}
    secret = session.create_client("secretsmanager").get_secret_value(SecretId=names["ChatHsToken"])
    folder = pathlib.Path(folder)
    (folder / "functions.json").write_text(json.dumps(functions))
    (folder / "hs-token").write_text(secret["SecretString"])
    (folder / "url").write_text(f"{endpoint}/_aws/execute-api/{names['Api']}/$default")
    print(f"{len(functions)} functions, {routes} routes")


def find_secrets():
    """Fails if the settings of a function contain the value of a secret."""
    import botocore.session

    session = botocore.session.get_session()
    secrets, functions = session.create_client("secretsmanager"), session.create_client("lambda")
    values = [
        secrets.get_secret_value(SecretId=secret["ARN"])["SecretString"]
        for secret in secrets.list_secrets()["SecretList"]
    ]
    names = [
        function["FunctionName"]
        for page in functions.get_paginator("list_functions").paginate()
        for function in page["Functions"]
    ]
    for name in names:
        variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        for variable, text in variables.items():
            assert not any(value in text for value in values), f"{variable} of {name} contains a secret"
    assert values and names
    print(f"{len(names)} functions, {len(values)} secrets")


if __name__ == "__main__":
    commands = {"adapt-template": adapt_template, "connect-api": connect_api, "find-secrets": find_secrets}
    commands[sys.argv[1]](*sys.argv[2:])
