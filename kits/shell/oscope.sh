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
_oscope_shortest=10000 # us: a repetition is at least as long, whatever the request wants

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

# Prints an assignment for each level. Fails, with `_oscope_value` its name, for a parameter not declared.
_oscope_levels() {
    local i rest=$1 name text
    for i in "${!_oscope_names[@]}"; do printf '%s=%q\n' "${_oscope_names[i]}" "${_oscope_defaults[i]}"; done
    [[ $rest =~ \"params\":\ *\{([^{}]*)\} ]] || return 0
    rest=${BASH_REMATCH[1]}
    while [[ $rest =~ ^[\ ,]*\"([^\"]*)\":\ *(\"(([^\"\\]|\\.)*)\"|[^,\ ]+)(.*)$ ]]; do
        name=${BASH_REMATCH[1]} text=${BASH_REMATCH[2]} rest=${BASH_REMATCH[5]}
        if [[ $text == \"* ]]; then
            text=${text:1:-1} text=${text//\\\"/\"} text=${text//\\\\/\\}
        fi
        _oscope_value=$name
        [[ " ${_oscope_names[*]} " == *" $name "* ]] || return 1
        printf '%s=%q\n' "$name" "$text"
    done
    return 0
}

# Prints what a request asks for as assignments; `_oscope_refused` is one where it cannot be carried out.
_oscope_parse() {
    local line=$1 name
    for name in id iterations min_time_ns warmup reps cpu; do
        _oscope_member "$line" "$name"
        printf '_oscope_%s=%q\n' "$name" "$_oscope_value"
    done
    if [[ ! $line =~ \"workload\":\ *\"([^\"]*)\" || ${BASH_REMATCH[1]} != "$_oscope_workload" ]]; then
        _oscope_refuse workload "there is no workload ${BASH_REMATCH[1]}"
    elif [[ $line =~ \"inject\":\ *\{ ]]; then
        _oscope_refuse inject "the shell kit injects no delay"
    elif ! _oscope_levels "$line"; then
        _oscope_refuse "$_oscope_value" "there is no parameter $_oscope_value"
    fi
}

_oscope_refuse() { printf '_oscope_field=%q _oscope_refused=%q\n' "$1" "$2"; }

# Takes one repetition of $1 iterations; sets `_oscope_raw`, in us. Fails where an iteration or the check does.
_oscope_repeat() {
    local _oscope_turns=$1 _oscope_begun _oscope_good=true
    # Standard input is empty. A redirection takes some system calls, so it is one for all iterations, outside the clock.
    {
        _oscope_clock
        _oscope_begun=$_oscope_now
        while ((_oscope_turns-- > 0)); do iterate || { _oscope_good=false && break; }; done
        _oscope_clock
    } <&4
    _oscope_raw=$((_oscope_now - _oscope_begun))
    $_oscope_good && { ! declare -F check >/dev/null || check <&4; }
}

_oscope_calibrate() {
    local _oscope_wanted _oscope_least=$_oscope_shortest
    ((${_oscope_min_time_ns:-0} / 1000 > _oscope_least)) && _oscope_least=$((_oscope_min_time_ns / 1000))
    _oscope_iterations=1
    while _oscope_repeat "$_oscope_iterations" && ((_oscope_raw < _oscope_least)); do
        _oscope_wanted=$((1 + _oscope_iterations * _oscope_least / (_oscope_raw > 0 ? _oscope_raw : 1)))
        ((_oscope_wanted > 10 * _oscope_iterations)) && _oscope_wanted=$((10 * _oscope_iterations))
        _oscope_iterations=$((_oscope_wanted > _oscope_iterations ? _oscope_wanted : _oscope_iterations + 1))
    done
}

_oscope_sample() {
    local _oscope_started=${EPOCHREALTIME//[!0-9]/}000 _oscope_failed=null _oscope_metrics=
    if _oscope_repeat "$_oscope_iterations"; then
        printf -v _oscope_metrics '"time_ns":%d.%03d' $((_oscope_raw * 1000 / _oscope_iterations)) \
            $((_oscope_raw * 1000000 / _oscope_iterations % 1000))
    else
        _oscope_failed='"an iteration or the check failed"'
    fi
    printf '{"event":"sample","request":%s,"rep":%d,"started_ns":%s,"raw":%d,"iterations":%d,"correction":0,' \
        "$_oscope_id" $((_oscope_rep++)) "$_oscope_started" "$_oscope_raw" "$_oscope_iterations" >&3
    printf '"metrics":{%s},"covariates":{},"failed":%s}\n' "$_oscope_metrics" "$_oscope_failed" >&3
}

_oscope_answer() {
    # No plain names, of what is local neither: a level has the name that its workload chose.
    local _oscope_id _oscope_min_time_ns _oscope_warmup _oscope_reps _oscope_cpu _oscope_rep=0
    local _oscope_field='' _oscope_refused=''
    # In a shell of its own: the memory that matching takes stays, and would make each fork of an iteration slower.
    eval "$(_oscope_parse "$1")"
    if [[ -n $_oscope_refused ]]; then
        _oscope_error "$_oscope_id" request "$(_oscope_json "$_oscope_field")" "$_oscope_refused"
        return
    fi
    _oscope_pin
    if declare -F prepare >/dev/null && ! prepare <&4; then
        _oscope_error "$_oscope_id" failed null "prepare failed"
        return
    fi
    [[ -n $_oscope_iterations ]] || _oscope_calibrate
    for ((_oscope_warmup = ${_oscope_warmup:-1}; _oscope_warmup > 0; _oscope_warmup--)); do
        _oscope_repeat "$_oscope_iterations" || true
    done
    while ((_oscope_rep < ${_oscope_reps:-1})) && ! $_oscope_ended; do _oscope_sample; done
    printf '{"event":"done","request":%s,"samples":%d,"iterations":%d,"interrupted":%s}\n' \
        "$_oscope_id" "$_oscope_rep" "$_oscope_iterations" "$_oscope_ended" >&3
    ! declare -F cleanup >/dev/null || cleanup <&4
}

# Pins this shell, and so what it starts, to the CPU asked for: by default the highest allowed, as the probe.
_oscope_pin() {
    if [[ -z $_oscope_cpu ]]; then
        _oscope_cpu=$(taskset -cp $$) || return 0
        _oscope_cpu=${_oscope_cpu##*[!0-9]}
    fi
    [[ $_oscope_cpu == -* ]] || taskset -cp "$_oscope_cpu" $$ >/dev/null
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
