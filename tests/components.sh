# shellcheck shell=bash
# Functions that the test scripts share: install, start and stop the components that they need.
# Source this file at the root of the project.

export TOUCHLINE_CACHE=${TOUCHLINE_CACHE:-$HOME/.cache/touchline}
export SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=eu-west-1
# With this variable, which some machines set, a Python program compiles its modules again at each start.
unset PYTHONDONTWRITEBYTECODE

# The functions that CI links as they are shipped: those whose cold start is measured, and the largest one.
# shellcheck disable=SC2034 # Used by the scripts that read this file.
MEASURED=(empty-function meta login predictions feed)

work=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || true
    # A process that a test has frozen handles the signal only when it continues.
    kill -CONT "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$work" || true
}
trap finish EXIT

step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

# alone COMMAND ...: runs the command while no other script installs anything.
alone() {
  mkdir -p "$TOUCHLINE_CACHE"
  (flock 9 && "$@" 9>&-) 9>"$TOUCHLINE_CACHE/install.lock"
}

# install_packages NAME ...: creates the virtual environment $TOUCHLINE_CACHE/NAME from tests/NAME.txt. Reuses it until that
# file changes. uv installs in seconds what takes pip minutes.
install_packages() {
  local name
  for name in uv "$@"; do alone install_environment "$name"; done
}

install_environment() {
  local folder=$TOUCHLINE_CACHE/$1
  if cmp -s "tests/$1.txt" "$folder/installed.txt"; then return; fi
  rm -rf "$folder"
  python3 -m venv "$folder"
  if [ "$1" = uv ]; then
    "$folder/bin/pip" install --quiet --disable-pip-version-check -r tests/uv.txt
  else
    "$TOUCHLINE_CACHE/uv/bin/uv" pip install --quiet --no-cache --python "$folder/bin/python" -r "tests/$1.txt"
  fi
  cp "tests/$1.txt" "$folder/installed.txt"
}

# install_programs PROGRAM ... -- PACKAGE ...: installs the Debian packages if a program is missing.
install_programs() {
  local missing=()
  while [ "$1" != -- ]; do
    [ -x "$1" ] || command -v "$1" >/dev/null || missing+=("$1")
    shift
  done
  shift
  if [ ${#missing[@]} = 0 ]; then return; fi
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Missing: ${missing[*]}. Install them." >&2
    exit 1
  fi
  alone install_debian_packages "$@"
}

install_debian_packages() {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "$@" >/dev/null
}

install_chromium() {
  install_programs "${CHROMIUM:=chromium}" -- chromium fonts-dejavu-core
  CHROMIUM=$(command -v "$CHROMIUM")
  export CHROMIUM
}

engine_responds() { "$TOUCHLINE_CACHE/sam/bin/python" -c 'import docker; docker.from_env().ping()' 2>/dev/null; }

# Needs the packages of sam.
install_container_engine() {
  if ! engine_responds; then
    install_programs podman runc iptables busybox /usr/lib/cni/bridge -- \
      podman runc iptables busybox-static containernetworking-plugins
  fi
}

# require_build: fails if the sources are newer than the last run of tests/build, or if it built only one function.
require_build() {
  if [ ! -f .aws-sam/build/template.yaml ] ||
    [ "$(find .aws-sam/build -name bootstrap | wc -l)" -lt "$(find functions -name Cargo.toml | wc -l)" ] ||
    [ -n "$(find template.yaml Cargo.toml Cargo.lock functions shared infra/empty-function -newer .aws-sam/build/template.yaml -type f -print -quit)" ]; then
    echo "The build is missing or out of date. Run tests/build first." >&2
    exit 1
  fi
}

target_folder() {
  cargo metadata --format-version 1 --no-deps | python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])'
}

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# wait_for NAME URL LOG: waits until the last started process responds at URL. If it ends, or does not respond for three
# minutes, prints the end of LOG.
wait_for() {
  for _ in $(seq 1800); do
    if curl --silent --output /dev/null "$2"; then return; fi
    kill -0 "${pids[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  echo "$1 did not start. Its log ends with:" >&2
  tail -20 "$3" >&2
  exit 1
}

# start_ministack NAME PORT [VARIABLE=VALUE ...]
start_ministack() {
  local name=$1 port=$2
  shift 2
  env BIND_HOST=127.0.0.1 GATEWAY_PORT="$port" MINISTACK_REGION="$AWS_DEFAULT_REGION" "$@" \
    "$TOUCHLINE_CACHE/real-components/bin/ministack" >"$work/$name.log" 2>&1 &
  pids+=($!)
  # ministack loads SNS at the first call to it. That can take longer than the product waits for SNS.
  wait_for "$name" "http://127.0.0.1:$port/?Action=ListTopics" "$work/$name.log"
}
