//! Completion of keys, beside that of commands and options.

use clap::Command;
use clap_complete::Shell;

const BASH: &str = r#"
_tourbillonctl_keys() {
    _tourbillonctl "$@"
    local cur=${COMP_LINE:0:COMP_POINT} word key
    cur=${cur##*[[:space:]]}
    [[ $cur == -* ]] && return
    # Bash completes behind the last sign that divides words.
    local head=${cur%"${cur##*[:@=]}"}
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
            COMMANDS)
                COMPREPLY=()
                while read -r key _; do
                    COMPREPLY+=("${key#"$head"}")
                done < <(tourbillonctl list --prefix "$cur" 2>/dev/null | tail -n +2)
                return
                ;;
        esac
    done
}
complete -F _tourbillonctl_keys -o bashdefault -o default tourbillonctl
"#;

const ZSH: &str = r#"
_tourbillonctl_keys() {
    local -a keys
    keys=(${(f)"$(tourbillonctl list --prefix "$PREFIX" 2>/dev/null | tail -n +2 | cut -d' ' -f1)"})
    compadd -a keys
}
"#;

const FISH: &str = r#"
function __tourbillonctl_keys
    tourbillonctl list --prefix (commandline -ct) 2>/dev/null | tail -n +2 | string split -f1 " "
end
complete -c tourbillonctl -n "__fish_seen_subcommand_from COMMANDS" -f -a "(__tourbillonctl_keys)"
"#;

/// Adds the completion of keys to a shell's completions: keys of the service that the environment
/// names.
pub(super) fn with_keys(program: &Command, shell: Shell, text: &str) -> String {
    let commands = |between: &str| {
        let of = program.get_subcommands().filter(|command| {
            command.get_positionals().any(|one| matches!(one.get_id().as_str(), "key" | "keys"))
        });
        of.map(Command::get_name).collect::<Vec<_>>().join(between)
    };
    match shell {
        Shell::Bash => format!("{text}{}", BASH.replace("COMMANDS", &commands(" | "))),
        Shell::Fish => format!("{text}{}", FISH.replace("COMMANDS", &commands(" "))),
        Shell::Zsh => {
            let head = text.find('\n').map_or(0, |end| end + 1);
            let (head, rest) = text.split_at(head);
            let keys = ["Key of the schedule", "Keys of the schedules"];
            let rest = keys.iter().fold(rest.to_owned(), |rest, keys| {
                rest.replace(&format!("{keys}:_default"), &format!("{keys}:_tourbillonctl_keys"))
            });
            format!("{head}{ZSH}{rest}")
        }
        _ => text.to_owned(),
    }
}
