//! Completions and manual pages of the programs, made from their command lines.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Command, Subcommand};
use clap_complete::Shell;

/// Commands that make them.
#[derive(Clone, Debug, Subcommand)]
pub enum Manual {
    /// Print completions for a shell.
    Completions {
        /// Shell to complete in.
        shell: Shell,
    },
    /// Write manual pages: one for the program, and one for each command.
    Man {
        /// Folder to write them to, such as `/usr/local/share/man/man1`.
        folder: PathBuf,
    },
}

impl Manual {
    /// Makes the requested text about a program. Returns the text to print.
    ///
    /// # Errors
    ///
    /// If a page cannot be written.
    pub fn of(&self, program: Command) -> Result<Vec<u8>, String> {
        match self {
            Self::Completions { shell } => Ok(completions(program, *shell)),
            Self::Man { folder } => {
                let wrong = |error| format!("{}: {error}", folder.display());
                write(program, folder).map_err(wrong)?;
                Ok(Vec::new())
            }
        }
    }
}

fn completions(mut program: Command, shell: Shell) -> Vec<u8> {
    let name = program.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut program, name, &mut text);
    text
}

fn write(program: Command, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    clap_mangen::generate_to(program, folder)
}
