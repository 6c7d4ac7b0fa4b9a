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
            let has_keys = |line: &str| line.contains(":key -- ") || line.contains(":keys -- ");
            let rest = rest.split_inclusive('\n').map(|line| match has_keys(line) {
                true => line.replace(":_default", ":_tourbillonctl_keys"),
                false => line.to_owned(),
            });
            let rest: String = rest.collect();
            format!("{head}{ZSH}{rest}")
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::ctl::cli::Cli;
    use crate::manual::Manual;

    #[test]
    fn zsh_completes_the_keys_of_each_command_that_has_some() {
        let (program, shell) = (Cli::command(), Shell::Zsh);
        let text = Manual::Completions { shell }.of(Cli::command()).unwrap();
        let text = with_keys(&program, shell, &String::from_utf8(text).unwrap());
        let of = |command: &&Command| {
            command.get_positionals().any(|one| ["key", "keys"].contains(&one.get_id().as_str()))
        };
        let commands = program.get_subcommands().filter(of).count();
        assert!(commands > 0);
        assert_eq!(text.matches(":_tourbillonctl_keys").count(), commands);
    }
}
