#!/usr/bin/env bash
# How long ls takes for a folder of files.
#
#     oscope run --workload ./example.sh list.folder --set files=10,1000
set -u
source "${BASH_SOURCE[0]%/*}/oscope.sh"

oscope_workload list.folder "List a folder"
oscope_parameter files integer 100 "Files in the folder."

prepare() {
    folder=$(mktemp -d) && (cd "$folder" && seq -f file%g "$files" | xargs -r touch)
}
iterate() { ls "$folder" >/dev/null; }
check() { [[ $(ls "$folder" | wc -l) -eq $files ]]; }
cleanup() { rm -r "$folder"; }

oscope_main "$@"
