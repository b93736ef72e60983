//! `tokenmill rm`: takes a checkpoint out of the hub cache.

use std::io::{self, BufRead, IsTerminal};

use tokenmill::{Bytes, Library, LibraryOptions};

use crate::{args::RmArgs, error::Error, output::Output};

/// Asks unless told not to, then removes.
pub fn rm(args: RmArgs, output: &Output) -> Result<(), Error> {
    let library = Library::new(LibraryOptions::default())?;
    let whole = library.local_models()?.into_iter().map(|model| (model.name, model.bytes));
    let left = library.leftovers()?.into_iter().map(|left| (left.repository, left.bytes));
    let Some((name, bytes)) = whole.chain(left).find(|(name, _)| *name == args.model) else {
        let text = format!("{} is not in the hub cache", args.model);
        return Err(tokenmill::Error::NotFound(text).into());
    };
    if !args.yes && !confirm(&name, Bytes(bytes), output)? {
        output.note("nothing was removed");
        return Ok(());
    }
    let freed = library.remove_local(&name)?;
    output.note(format_args!("removed {name}: {freed} freed"));
    Ok(())
}

/// Asks at the terminal; where there is none, nobody can agree.
fn confirm(name: &str, bytes: Bytes, output: &Output) -> Result<bool, Error> {
    if !io::stdin().is_terminal() {
        let text = format!("removing {name} needs a yes: answer at a terminal, or give --yes");
        return Err(Error::Usage(text));
    }
    output.reply(format_args!("remove {name} ({bytes}) from the hub cache? [y/N]"));
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|source| Error::io("reading the answer", source))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
