"""What ministack needs of us to take our template. `plain` runs under the SAM CLI's Python, `connect` under ministack's."""

import json
import pathlib
import re
import sys


def plain(source, destination):
    """Leaves out what ministack does not know: CodeDeploy, and alarms over sums of metrics. And where AWS asks a role for the
    PartiQL statements of a batch, ministack asks for the batch, so it is allowed beside them."""
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


def connect(stack, folder, endpoint):
    """Makes the API's routes, which ministack does not take from a template, out of what SAM made of them there; and
    writes down what the suite has to know: the address, the functions' names, the homeserver's token."""
    import botocore.session

    session = botocore.session.get_session()
    formation, gateway = session.create_client("cloudformation"), session.create_client("apigatewayv2")
    resources = formation.describe_stack_resources(StackName=stack)["StackResources"]
    names = {resource["LogicalResourceId"]: resource["PhysicalResourceId"] for resource in resources}
    template = formation.get_template(StackName=stack, TemplateStage="Processed")["TemplateBody"]
    template = json.loads(template) if isinstance(template, str) else template
    routes = 0
    for path, methods in template["Resources"]["Api"]["Properties"]["Body"]["paths"].items():
        for method, operation in methods.items():
            integration = operation["x-amazon-apigateway-integration"]
            function = re.search(r"/functions/\$\{(\w+)\}/", integration["uri"]["Fn::Sub"])[1]
            made = gateway.create_integration(
                ApiId=names["Api"],
                IntegrationType="AWS_PROXY",
                IntegrationUri=names[function],
                PayloadFormatVersion=integration["payloadFormatVersion"],
            )
            target = "integrations/" + made["IntegrationId"]
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


if __name__ == "__main__":
    {"plain": plain, "connect": connect}[sys.argv[1]](*sys.argv[2:])
