# The shell kit: makes a function a workload that `oscope run --workload ./script` measures. Source it (bash 5).
#
#     #!/usr/bin/env bash
#     source ./oscope.sh
#     oscope_workload list.folder "List a folder"
#     oscope_parameter files integer 100 "Files in the folder."
#     prepare() { folder=$(mktemp -d); touch "$folder"/$(seq -f file%g "$files"); }
#     iterate() { ls "$folder" >/dev/null; }
#     cleanup() { rm -r "$folder"; }
#     oscope_main "$@"
#
# Each level is a variable of the parameter's name. `prepare`, `check` and `cleanup` may be left out; a
# function that returns another status than 0 makes the sample fail. The clock is EPOCHREALTIME, in steps of
# a microsecond, and a call of a function costs about one: this is for what takes milliseconds.

_oscope_names=() _oscope_types=() _oscope_defaults=() _oscope_docs=()
_oscope_ended=false
_oscope_least=10000 # us: a repetition is at least as long, whatever the request wants

# oscope_workload NAME PURPOSE: declares the workload of this script.
oscope_workload() { _oscope_workload=$1 _oscope_purpose=$2; }

# oscope_parameter NAME integer|bytes|duration|boolean|path DEFAULT DOC: declares a factor.
oscope_parameter() {
    _oscope_names+=("$1") _oscope_types+=("$2") _oscope_defaults+=("$3") _oscope_docs+=("$4")
}

# Prints a text as JSON.
_oscope_json() {
    local text=${1//\\/\\\\}
    text=${text//\"/\\\"} text=${text//$'\n'/\\n} text=${text//$'\t'/\\t}
    printf '"%s"' "${text//[[:cntrl:]]/ }"
}

_oscope_describe() {
    local i comma='' default
    printf '{"schema":"oscope.probe/1","probe":{"version":"shell-kit 1","commit":null},"workloads":[{"name":'
    _oscope_json "$_oscope_workload"
    printf ',"version":1,"purpose":'
    _oscope_json "$_oscope_purpose"
    printf ',"timing_model":"time = (raw - correction) / iterations; raw is EPOCHREALTIME of bash in us around '
    printf 'all iterations of a repetition, the calls of the function and its forks with it","parameters":['
    for i in "${!_oscope_names[@]}"; do
        default=${_oscope_defaults[i]}
        [[ ${_oscope_types[i]} == path ]] && default=$(_oscope_json "$default")
        printf '%s{"name":"%s","type":"%s","default":%s,"doc":' "$comma" "${_oscope_names[i]}" \
            "${_oscope_types[i]}" "$default"
        _oscope_json "${_oscope_docs[i]}"
        printf '}' && comma=,
    done
    printf '],"metrics":[{"name":"time_ns","unit":"ns","better":"less","quantity":"time",'
    printf '"per":"iteration","note":"It includes the forks of the shell.",'
    printf '"doc":"Time per iteration. It includes the forks of the shell."}],"alone":null}],"covariates":[]}\n'
}

# Sets `_oscope_now`, in us.
_oscope_clock() { _oscope_now=${EPOCHREALTIME//[!0-9]/}; }

# Sets `_oscope_value` to the member $2 of the request $1, where that is a number.
_oscope_member() {
    _oscope_value=
    [[ $1 =~ \"$2\":\ *(-?[0-9.]+([eE][-+]?[0-9]+)?) ]] && _oscope_value=${BASH_REMATCH[1]}
}

_oscope_error() { # request, kind, field (JSON), message
    printf '{"event":"error","request":%s,"kind":"%s","field":%s,"message":%s,"remedy":null}\n' \
        "$1" "$2" "$3" "$(_oscope_json "$4")" >&3
}

# Sets a variable for each level. Fails, with `_oscope_value` its name, for a parameter not declared.
_oscope_levels() {
    local i rest=$1 name text
    for i in "${!_oscope_names[@]}"; do printf -v "${_oscope_names[i]}" %s "${_oscope_defaults[i]}"; done
    [[ $rest =~ \"params\":\ *\{([^{}]*)\} ]] || return 0
    rest=${BASH_REMATCH[1]}
    while [[ $rest =~ ^[\ ,]*\"([^\"]*)\":\ *(\"(([^\"\\]|\\.)*)\"|[^,\ ]+)(.*)$ ]]; do
        name=${BASH_REMATCH[1]} text=${BASH_REMATCH[2]} rest=${BASH_REMATCH[5]}
        if [[ $text == \"* ]]; then
            text=${text:1:-1} text=${text//\\\"/\"} text=${text//\\\\/\\}
        fi
        _oscope_value=$name
        [[ " ${_oscope_names[*]} " == *" $name "* ]] || return 1
        printf -v "$name" %s "$text"
    done
    return 0
}

# Takes one repetition of $1 iterations; sets `_oscope_raw`, in us. Fails where an iteration or the check does.
_oscope_repeat() {
    local turns=$1 begun good=true
    # Standard input is empty. A redirection takes some system calls, so it is one for all iterations, outside the clock.
    {
        _oscope_clock
        begun=$_oscope_now
        while ((turns-- > 0)); do iterate || { good=false && break; }; done
        _oscope_clock
    } <&4
    _oscope_raw=$((_oscope_now - begun))
    $good && { ! declare -F check >/dev/null || check <&4; }
}

_oscope_calibrate() {
    local least=$_oscope_least
    ((${1:-0} / 1000 > least)) && least=$((${1} / 1000))
    _oscope_iterations=1
    while _oscope_repeat "$_oscope_iterations" && ((_oscope_raw < least)); do
        local wanted=$((1 + _oscope_iterations * least / (_oscope_raw > 0 ? _oscope_raw : 1)))
        ((wanted > 10 * _oscope_iterations)) && wanted=$((10 * _oscope_iterations))
        _oscope_iterations=$((wanted > _oscope_iterations ? wanted : _oscope_iterations + 1))
    done
}

_oscope_sample() { # request, rep
    local started=${EPOCHREALTIME//[!0-9]/}000 failed=null metrics=
    if _oscope_repeat "$_oscope_iterations"; then
        printf -v metrics '"time_ns":%d.%03d' $((_oscope_raw * 1000 / _oscope_iterations)) \
            $((_oscope_raw * 1000000 / _oscope_iterations % 1000))
    else
        failed='"an iteration or the check failed"'
    fi
    printf '{"event":"sample","request":%s,"rep":%d,"started_ns":%s,"raw":%d,"iterations":%d,"correction":0,' \
        "$1" "$2" "$started" "$_oscope_raw" "$_oscope_iterations" >&3
    printf '"metrics":{%s},"covariates":{},"failed":%s}\n' "$metrics" "$failed" >&3
}

_oscope_answer() {
    local line=$1 id reps warmup rep=0
    _oscope_member "$line" id && id=$_oscope_value
    if [[ ! $line =~ \"workload\":\ *\"([^\"]*)\" || ${BASH_REMATCH[1]} != "$_oscope_workload" ]]; then
        _oscope_error "$id" request '"workload"' "there is no workload ${BASH_REMATCH[1]}"
        return
    elif [[ $line =~ \"inject\":\ *\{ ]]; then
        _oscope_error "$id" request '"inject"' "the shell kit injects no delay"
        return
    elif ! _oscope_levels "$line"; then
        _oscope_error "$id" request "$(_oscope_json "$_oscope_value")" "there is no parameter $_oscope_value"
        return
    fi
    _oscope_pin "$line"
    if declare -F prepare >/dev/null && ! prepare <&4; then
        _oscope_error "$id" failed null "prepare failed"
        return
    fi
    _oscope_member "$line" iterations && _oscope_iterations=$_oscope_value
    if [[ -z $_oscope_value ]]; then
        _oscope_member "$line" min_time_ns || true
        _oscope_calibrate "$_oscope_value"
    fi
    _oscope_member "$line" warmup || true
    for ((warmup = ${_oscope_value:-1}; warmup > 0; warmup--)); do _oscope_repeat "$_oscope_iterations" || true; done
    _oscope_member "$line" reps || true
    reps=${_oscope_value:-1}
    while ((rep < reps)) && ! $_oscope_ended; do _oscope_sample "$id" $((rep++)); done
    printf '{"event":"done","request":%s,"samples":%d,"iterations":%d,"interrupted":%s}\n' \
        "$id" "$rep" "$_oscope_iterations" "$_oscope_ended" >&3
    ! declare -F cleanup >/dev/null || cleanup <&4
}

# Pins this shell, and so what it starts, to the CPU asked for: by default the highest allowed, as the probe.
_oscope_pin() {
    local allowed
    _oscope_member "$1" cpu || true
    if [[ -z $_oscope_value ]]; then
        allowed=$(taskset -cp $$) || return 0
        [[ $allowed =~ ([0-9]+)$ ]] && _oscope_value=${BASH_REMATCH[1]}
    fi
    [[ $_oscope_value == -* ]] || taskset -cp "$_oscope_value" $$ >/dev/null
}

# Answers `describe` or `run`. Call it last, with the script's arguments.
oscope_main() {
    case $* in
    describe) _oscope_describe ;;
    run)
        # What an iteration prints must not get among the answers, and it must not read the requests.
        exec 3>&1 1>&2 4</dev/null
        trap '_oscope_ended=true' TERM INT
        printf '{"event":"hello","schema":"oscope.probe/1","probe":{"version":"shell-kit 1","commit":null},' >&3
        printf '"pid":%d,"environment":{"clock":{"kind":"realtime","hz":1e6,"overhead":0,"overhead_mad":0,' $$ >&3
        printf '"why":"a shell has no other without a fork"}}}\n' >&3
        local line='' part status
        # With a limit of time: a signal that comes just before `read` would else be noticed by the next line.
        while ! $_oscope_ended; do
            if IFS= read -r -t 0.2 part; then status=0; else status=$?; fi
            line+=$part
            if ((status == 0)); then
                [[ -z $line ]] || _oscope_answer "$line"
                line=''
            elif ((status <= 128)); then
                break
            fi
        done
        ;;
    *)
        echo "This is a workload program: measure with oscope run --workload $0" >&2
        exit 2
        ;;
    esac
}
