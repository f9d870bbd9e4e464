//! `template export`: a whole list, from the api into a file.

use std::{
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
};

use crate::{
    api::{Api, call::Call},
    arguments::Export,
    commands::templates::{with, within},
    failure::Failure,
    output,
};

/// Suffix of an incomplete file's name.
const PART: &str = ".part";

/// Writes the list to the file or to standard output.
///
/// # Errors
/// The api refuses, the answer breaks off, or the file cannot be written. An incomplete file keeps its suffix.
pub(crate) async fn export(arguments: &Export, api: &Api) -> Result<(), Failure> {
    let Export { id, list, format, out, status, state, user, period } = arguments;
    let call = Call::get(format!("/v1/templates/{}/{list}", id.id));
    let call = with(with(call, "status", status.as_ref()), "state", state.as_ref());
    let call = within(with(call, "user_id", user.as_ref()), period);
    let accept = if format == "ndjson" { "application/x-ndjson" } else { "text/csv" };
    let Some(out) = out else { return api.stream(&call, accept, output::put).await };
    let mut part = out.clone().into_os_string();
    part.push(PART);
    let failed = |error: std::io::Error| cannot_be_written(out, &error);
    let mut file = BufWriter::new(File::create(&part).map_err(failed)?);
    api.stream(&call, accept, |piece| file.write_all(piece).map_err(failed)).await?;
    file.flush().map_err(failed)?;
    drop(file);
    fs::rename(&part, out).map_err(failed)
}

fn cannot_be_written(file: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{} cannot be written: {error}.", file.display()))
}
