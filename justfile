# Recipes for `just` (https://just.systems). You do not need `just`: each recipe is a few plain commands.

set positional-arguments

# List the recipes
default:
    @just --list --unsorted

# Start the local stack on http://127.0.0.1:3000; arguments are flags, see `just run --help`
run *flags:
    cargo run -- "$@"

# Compile everything, tests included, without running anything
check:
    cargo check --workspace --all-targets

# Run the tests that need no other software; arguments go to `cargo test`, such as a part of a test's name
test *arguments:
    cargo test --workspace "$@"

# Run the tests of one crate, such as `just test-crate coins`
test-crate crate *arguments:
    cargo test -p "$@"

# Format the code
fmt:
    cargo fmt --all

# Check the format and run the lints
lint:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings

# Check bans, licences, sources and advisories of the dependencies; needs cargo-deny
deny:
    cargo deny check

# Build the Rust documentation in target/doc, without the local stack's binary: its pages would replace those of shared
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Write docs/openapi.json again, after a change to an endpoint
openapi:
    UPDATE_OPENAPI=1 cargo test -p touchline-tests openapi

# Write the table of error codes in docs/api.md again, after a change to a code
error-codes:
    UPDATE_ERROR_CODES=1 cargo test -p touchline-tests error_codes

# Write docs/costs.md again, after a change to a DynamoDB call
costs:
    UPDATE_COSTS=1 cargo test -p touchline-tests costs

# Run every check, as CI does
ci:
    .ci/run

# Run the commands of the README's walk-through on a fresh local stack
walk-through:
    tests/walk-through

# Simulate the whole product under the faults of AWS: `just simulate --worlds 1000`, `just simulate --seed 7 --trace trace.txt`
simulate *arguments:
    cargo run --profile bench -p touchline-simulation -- "$@"

# Simulate the wallet with injected faults: 100,000 schedules, or as given: `just bank <schedules> <first seed>`
bank *arguments:
    cargo run --profile bench -p touchline-simulation --bin bank -- "$@"

# Simulate leaderboards with injected faults: 100,000 worlds, or as given: `just league <worlds> <first seed>`
league *arguments:
    cargo run --profile bench -p touchline-simulation --bin league -- "$@"

# Test against an independent DynamoDB, SNS, Synapse, the AWS CLI and the template linters
real-components:
    tests/real-components

# Test the API description and the console, or only the parts named: lint, client, browser, schemathesis
api-and-console *parts:
    tests/api-and-console "$@"

# Build every function for deployment with `sam build`; arguments go to `sam build`
build *arguments:
    tests/build "$@"

# Run every built function under the Lambda emulator, or only the functions named
emulator *functions:
    tests/emulator "$@"

# Deploy the built stack onto ministack and run the HTTP tests against it
deployed:
    tests/deployed

# Run `sam local invoke` on the built functions in containers
sam-local:
    tests/sam-local

# Deploy to AWS: `just deploy staging`; further arguments go to `sam deploy`
deploy environment *arguments:
    infra/deploy "$@"

# Print a registration file for a Matrix homeserver
matrix-registration server_name url="http://127.0.0.1:3000":
    cargo run --quiet -- matrix-registration --server-name "$1" --url "$2"

# Print the demo league, a payload for `feed`
demo-league:
    cargo run --quiet -- demo-league

# Run the quick modes of the benchmarks and compare their ratios with docs/benchmarks.md; needs tests/build
benchmarks:
    tests/benchmarks

# Measure the local stack of `cargo run` under load; `--write` updates docs/benchmarks.md
bench-local *flags:
    cargo build --workspace --bin touchline --bin local-bench
    "${CARGO_TARGET_DIR:-target}/debug/local-bench" "$@"

# Measure the optimised local stack under load; `--write` updates docs/benchmarks.md
bench-local-optimised *flags:
    cargo build --workspace --profile bench --bin touchline --bin local-bench
    "${CARGO_TARGET_DIR:-target}/release/local-bench" "$@"

# Measure the catalog at 100,000 matches
bench-catalog *flags:
    cargo run --profile bench -p touchline-bench --bin catalog-bench -- "$@"

# Measure the calculation of points for up to 1,000,000 predictions
bench-points *flags:
    cargo run --profile bench -p touchline-bench --bin points-bench -- "$@"

# Play a final with 5,000,000 fans as a scale model, within AWS's limits
bench-final *flags:
    cargo run --profile bench -p touchline-bench --bin final-bench -- "$@"

# Measure the search among 100,000 rooms
bench-rooms *flags:
    cargo run --profile bench -p touchline-bench --bin rooms-bench -- "$@"

# Measure cold starts, with an empty function and Node for comparison; needs tests/build
bench-cold-start *flags:
    cd infra/bench/node && npm ci
    cargo run --profile bench -p touchline-bench --bin cold-start -- "${CARGO_TARGET_DIR:-target}/lambda" infra/bench/node "$@"
