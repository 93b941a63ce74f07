//! `handfast import`, and `handfast proxy --stunnel` and `--hitch`: other programs' configurations.
//!
//! In: a file or a command line. Out: a `handfast.toml`, and on standard error a line for each option with another meaning.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use handfast_config::source::{Convert, ReadFile};
use handfast_config::{ConfigSource, ConvertedConfig};
use handfast_import::{ImportError, Imported, Origin, Row};

use crate::talk;
use crate::talk::print;
use crate::words::Foreign;
use crate::words::import::{ImportFrom, ImportWords};

/// Runs `handfast import`.
pub(crate) fn import(words: &ImportWords) -> ExitCode {
    let folder = std::env::current_dir().unwrap_or_default();
    let (imported, from) = match &words.from {
        ImportFrom::Stunnel { file } => (handfast_import::stunnel(file, &folder), file.clone()),
        ImportFrom::Hitch { file } => (handfast_import::hitch(file, &folder), file.clone()),
        ImportFrom::Nginx { files } => {
            (handfast_import::nginx(files, &folder), files.first().cloned().unwrap_or_default())
        }
        ImportFrom::Haproxy { files } => {
            (handfast_import::haproxy(files, &folder), files.first().cloned().unwrap_or_default())
        }
        ImportFrom::Caddy { file } => (handfast_import::caddy(file, &folder), file.clone()),
        ImportFrom::Ghostunnel { arguments } => {
            (handfast_import::ghostunnel(arguments, &folder), PathBuf::from("the command line"))
        }
    };
    let imported = match imported {
        Ok(imported) => imported,
        Err(error) => return wrong(&error.to_string()),
    };
    if imported.services.exact < imported.services.total() {
        talk::err(&imported.services.to_string());
    }
    for note in &imported.notes {
        talk::err(&note.to_string());
    }
    if words.strict && !imported.is_exact() {
        talk::err("error: nothing is written: with --strict, no option may change its meaning");
        return ExitCode::FAILURE;
    }
    // Pages that it names must be there before it is checked.
    if let Some(path) = &words.output
        && let Err((path, error)) = write_files(path, &imported)
    {
        return wrong(&format!("cannot write {}: {error}", path.display()));
    }
    let has_files = words.output.is_some() && !imported.files.is_empty();
    let checked = words.output.clone().filter(|_| has_files).unwrap_or(from);
    let is_good = !imported.is_whole() || is_served(&imported, checked);
    if words.strict && !is_good {
        talk::err("error: nothing is written: with --strict, the result must pass `handfast check`");
        return ExitCode::FAILURE;
    }
    let written = match &words.output {
        None => print(&imported.config, true),
        Some(path) => match write(path, &imported.config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => return wrong(&format!("cannot write {}: {error}", path.display())),
        },
    };
    match (imported.is_whole(), is_good) {
        (true, true) => written,
        (true, false) => {
            talk::err(
                "error: the new configuration would not start here. On the machine that it is for: handfast check -c FILE",
            );
            ExitCode::FAILURE
        }
        (false, _) => refused(),
    }
}

/// Returns true if a proxy on this machine would start with the result; reports the problems that `handfast check` reports.
fn is_served(imported: &Imported, file: PathBuf) -> bool {
    let config = imported.config.clone();
    let convert = move |_: &Path, _: ReadFile<'_>| Ok((config.clone(), String::new()));
    let source = ConfigSource::Converted(ConvertedConfig { file, convert: Arc::new(convert) });
    let checked = handfast_proxy::check(&source, None, crate::talk::color());
    if !checked.problems.is_empty() {
        talk::err(checked.problems.trim_end());
    }
    checked.good
}

fn refused() -> ExitCode {
    talk::err(
        "error: not every service was converted: see `refused` above. Change the old configuration, or write it by hand",
    );
    ExitCode::FAILURE
}

fn wrong(error: &str) -> ExitCode {
    talk::err(&format!("error: {error}"));
    ExitCode::from(2)
}

/// Writes the files that the new configuration names into its folder. With `--strict` there are none: each has a note.
fn write_files(config: &Path, imported: &Imported) -> Result<(), (PathBuf, std::io::Error)> {
    let folder = config.parent().unwrap_or(Path::new(""));
    if !imported.files.is_empty() && config.exists() {
        return Err((config.to_owned(), std::io::ErrorKind::AlreadyExists.into()));
    }
    for file in &imported.files {
        let path = folder.join(&file.name);
        write(&path, &file.content).map_err(|error| (path, error))?;
    }
    Ok(())
}

/// Never replaces a file: a person may have edited it.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    File::create_new(path)?.write_all(text.as_bytes())
}

/// A configuration of another program, which is converted at start and at each reload; `None`: the words name none.
pub(crate) fn source(words: &Foreign) -> Option<ConfigSource> {
    // The current folder: a reload must not depend on the working directory at that time.
    let folder = std::env::current_dir().unwrap_or_default();
    let given = words.hitch_option.clone();
    let (file, is_stunnel) = match (&words.stunnel, &words.hitch) {
        (Some(file), _) => (file.clone(), true),
        (None, Some(file)) => (file.clone(), false),
        (None, None) => return None,
    };
    let convert: Arc<Convert> = Arc::new(move |file, read| {
        let bytes = read(file).map_err(|source| ConversionError::Read { file: file.to_owned(), source })?;
        Ok(config_of(match is_stunnel {
            true => handfast_import::stunnel_from(&bytes, file, &folder),
            false => handfast_import::hitch_from(&bytes, file, &given, &folder),
        })?)
    });
    Some(ConfigSource::Converted(ConvertedConfig { file, convert }))
}

/// Reason why a configuration of another program is not served.
#[derive(Debug, thiserror::Error)]
enum ConversionError {
    #[error("error: cannot read {}: {source}\n", .file.display())]
    Read { file: PathBuf, source: std::io::Error },
    #[error("error: {0}\n")]
    Import(#[from] ImportError),
    /// An option has no counterpart; the notes name it.
    #[error("{notes}error: not everything can be served as before: see `refused` above\n")]
    Incomplete { notes: String },
}

fn config_of(imported: Result<Imported, ImportError>) -> Result<(String, String), ConversionError> {
    let imported = imported?;
    let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
    if imported.is_whole() {
        Ok((imported.in_place(), notes))
    } else {
        Err(ConversionError::Incomplete { notes })
    }
}

/// The programs, in the order in which the reference page has them.
const ORIGINS: [Origin; 6] =
    [Origin::Stunnel, Origin::Hitch, Origin::Ghostunnel, Origin::Nginx, Origin::Haproxy, Origin::Caddy];

/// The tables of the reference page.
pub(crate) fn tables() -> String {
    let mut page = String::new();
    for origin in ORIGINS {
        page.push_str(&format!("\n## Every option of {}\n\n", origin.name()));
        page.push_str("| option | becomes | fate | what changes | checked with |\n|---|---|---|---|---|\n");
        page.extend(origin.rows().iter().map(line));
    }
    page
}

fn line(row: &Row) -> String {
    let becomes = if row.converted.is_empty() {
        String::new()
    } else {
        format!("`{}`", row.converted.replace('|', "\\|"))
    };
    format!("| `{}` | {becomes} | {} | {} | {} |\n", row.name, row.fate.word(), row.effect, row.checked)
}

#[cfg(test)]
mod keywords;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "no other process reads these files")]
mod tests {
    use handfast_config as config;
    use handfast_import::{Fate, Scope};
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn what_hitch_does_not_do_is_not_dropped() {
        let folder = folder();
        let file = folder.path().join("hitch.conf");
        let imported = |daemon: &str| {
            std::fs::write(&file, format!("pem-file = \"web.pem\"\ndaemon = {daemon}\n")).expect("written");
            handfast_import::hitch(&file, Path::new("")).expect("hitch reads it")
        };
        assert!(imported("off").is_exact(), "it stays in the foreground, as here");
        assert!(!imported("on").is_exact());
    }

    /// Certificates for options that read them: pins are computed from the file's keys.
    fn folder() -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let pem = include_str!("../../handfast-pki/src/presented/testdata/pin.crt");
        for name in ["peers.pem", "ca.pem"] {
            std::fs::write(folder.path().join(name), pem).expect("written");
        }
        folder
    }

    /// An example in a configuration that works.
    fn example(origin: Origin, row: &Row, folder: &Path) -> Result<Imported, ImportError> {
        let file = folder.join("old.conf");
        let write = |text: String| std::fs::write(&file, text).expect("written");
        // Paths in a result are those of the example, so the files are where the tests are run from, or not at all.
        let nowhere = Path::new("");
        match (origin, row.scope) {
            (Origin::Stunnel, scope) => {
                let accept = if row.name == "accept" { "" } else { "accept = 127.0.0.1:8443\n" };
                let connect = if row.example.contains("exec = ") { "" } else { "connect = 127.0.0.1:8080\n" };
                let base = format!("[web]\n{accept}{connect}cert = web.pem\n");
                let example =
                    row.example.replace("peers.pem", &folder.join("peers.pem").display().to_string());
                write(match scope {
                    Scope::Global => format!("{example}\n{base}"),
                    Scope::Service => format!("{base}{example}\n"),
                });
                handfast_import::stunnel(&file, nowhere)
            }
            (Origin::Hitch, _) => {
                write(format!("pem-file = \"web.pem\"\n{}\n", row.example));
                handfast_import::hitch(&file, nowhere)
            }
            (Origin::Nginx, _) => {
                write(in_nginx(&row.example));
                handfast_import::nginx(&[file], nowhere)
            }
            (Origin::Haproxy, _) => {
                write(in_haproxy(&row.example));
                handfast_import::haproxy(&[file], nowhere)
            }
            (Origin::Caddy, _) => {
                write(in_caddy(&row.example));
                handfast_import::caddy(&file, nowhere)
            }
            (Origin::Ghostunnel, _) => {
                let of_client = row.name == "proxy"
                    || ["verify-", "override", "connect-proxy"].iter().any(|name| row.name.starts_with(name));
                let verb = if of_client { "client" } else { "server" };
                let mut arguments: Vec<String> =
                    [verb, "--listen=127.0.0.1:8443", "--target=127.0.0.1:8080"].map(str::to_owned).into();
                if !of_client && !["keystore", "cert", "key"].contains(&row.name) {
                    arguments.push("--cert=web.pem".into());
                }
                if !of_client {
                    arguments.push("--cacert=ca.pem".into());
                    if !row.name.starts_with("allow-") || row.name == "allow-unsafe-cipher-suites" {
                        arguments.push("--allow-all".into());
                    }
                }
                arguments.extend(row.example.split(' ').map(str::to_owned));
                handfast_import::ghostunnel(&arguments, nowhere)
            }
        }
    }

    /// An example of nginx in a server, or where the word in front of `|` says.
    fn in_nginx(example: &str) -> String {
        let (place, example) = example.split_once('|').unwrap_or(("server", example));
        let at = |name: &str| if place == name { example } else { "" };
        format!(
            "{}\nhttp {{\n{}\nupstream back {{\nserver 127.0.0.1:8080;\n{}\n}}\nserver {{\nlisten 127.0.0.1:8443 ssl http2;\n\
             server_name a.example;\nssl_certificate /c/web.pem;\nssl_certificate_key /c/web.key;\n{}\nlocation / {{\n\
             proxy_pass http://back;\nproxy_redirect off;\n{}\n}}\n}}\n}}\n",
            at("main"),
            at("http"),
            at("upstream"),
            at("server"),
            at("location")
        )
    }

    /// An example of HAProxy in a frontend, or in the section named before `|`; behind a line with `%` it is a separate section.
    fn in_haproxy(example: &str) -> String {
        let (place, example) = match example.split_once('|') {
            Some((place, rest)) if place.bytes().all(|byte| byte.is_ascii_lowercase()) => (place, rest),
            _ => ("frontend", example),
        };
        let (example, section) = example.split_once("\n%").unwrap_or((example, ""));
        let at = |name: &str| if place == name { example } else { "" };
        if place == "tcp" {
            return format!(
                "listen l\n bind 127.0.0.1:8443\n {example}\n server one 127.0.0.1:8080\n{section}\n"
            );
        }
        // The lines after the options of an address belong to the frontend.
        let (bind, more) = at("bind").split_once('\n').unwrap_or((at("bind"), ""));
        format!(
            "global\n {}\ndefaults\n mode http\nfrontend web\n bind 127.0.0.1:8443 ssl crt web.pem {bind}\n{more}\n {}\n \
             default_backend back\nbackend back\n {}\n server one 127.0.0.1:8080 {}\n{section}\n{}\n",
            at("global"),
            at("frontend"),
            at("backend"),
            at("server"),
            at("section")
        )
    }

    /// An example of Caddy merged into a configuration, at the place in front of `|`.
    fn in_caddy(example: &str) -> String {
        let mut root = serde_json::json!({ "apps": {
            "http": { "servers": { "web": {
                "listen": ["127.0.0.1:8443"],
                "tls_connection_policies": [{}],
                "automatic_https": { "disable_redirects": true },
                "routes": [{
                    "match": [{ "host": ["a.example"] }],
                    "handle": [{ "handler": "reverse_proxy", "upstreams": [{ "dial": "127.0.0.1:8080" }] }],
                }],
            } } },
            "tls": { "certificates": { "load_files": [{ "certificate": "/c/web.pem", "key": "/c/web.key" }] } },
        } });
        let (place, text) = example.split_once('|').unwrap_or(("root", "{}"));
        let fragment: serde_json::Value = serde_json::from_str(text).expect("an example is JSON");
        let server = "/apps/http/servers/web";
        match place {
            "handler" | "routes" => {
                let list = if place == "handler" { "/routes/0/handle" } else { "/routes" };
                let list = root.pointer_mut(&format!("{server}{list}")).and_then(|list| list.as_array_mut());
                list.expect("it is there").insert(0, fragment);
            }
            "acme" => {
                root["apps"]["tls"] =
                    serde_json::json!({ "automation": { "policies": [{ "issuers": [fragment] }] } });
            }
            _ => {
                let at = match place {
                    "http" => "/apps/http".to_owned(),
                    "tls" => "/apps/tls".to_owned(),
                    "files" => "/apps/tls/certificates/load_files/0".to_owned(),
                    "server" => server.to_owned(),
                    "policy" => format!("{server}/tls_connection_policies/0"),
                    "route" => format!("{server}/routes/0"),
                    "proxy" => format!("{server}/routes/0/handle/0"),
                    _ => String::new(),
                };
                merge(root.pointer_mut(&at).expect("it is there"), fragment);
            }
        }
        root.to_string()
    }

    fn merge(into: &mut serde_json::Value, from: serde_json::Value) {
        match (into, from) {
            (serde_json::Value::Object(into), serde_json::Value::Object(from)) => {
                for (key, value) in from {
                    merge(into.entry(key).or_insert(serde_json::Value::Null), value);
                }
            }
            (into, from) => *into = from,
        }
    }

    /// The example of each option is converted as its row says, and the proxy accepts the result.
    #[test]
    fn the_tables_are_true() {
        let (folder, mut wrong) = (folder(), Vec::new());
        for origin in ORIGINS {
            for row in origin.rows() {
                if let Err(what) = is_true(origin, row, folder.path()) {
                    wrong.push(format!("{}: {}: {what}", origin.name(), row.name));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    }

    fn is_true(origin: Origin, row: &Row, folder: &Path) -> Result<(), String> {
        let imported = example(origin, row, folder).map_err(|error| error.to_string())?;
        let worst = imported.notes.iter().map(|note| note.fate).max().unwrap_or(Fate::Same);
        let (text, notes) = (&imported.config, &imported.notes);
        if worst != row.fate {
            return Err(format!("expected {:?}, but {notes:#?}", row.fate));
        }
        if !text.contains(&row.converted) {
            return Err(format!("expected {}, but\n{text}", row.converted));
        }
        if row.fate == Fate::Refused {
            let is_left_out = row.example.starts_with("main|stream") && text.contains("stream-1 is not here");
            return if text.contains("[[service]]") && !is_left_out {
                Err(format!("a service in\n{text}"))
            } else {
                Ok(())
            };
        }
        let parsed = config::parse("handfast.toml", text, &|_| false);
        parsed.map(|_| ()).map_err(|problems| format!("{problems:?}\n{text}"))
    }

    /// The conversion of a file of `testdata/questions`: every note, then the new file.
    fn becomes(path: &Path) -> String {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let nowhere = Path::new("/etc/old");
        let imported = match name.split('-').next() {
            Some("stunnel") => handfast_import::stunnel(path, nowhere),
            Some("hitch") => handfast_import::hitch(path, nowhere),
            Some("nginx") => handfast_import::nginx(&[path.to_owned()], nowhere),
            Some("haproxy") => handfast_import::haproxy(&[path.to_owned()], nowhere),
            Some("caddy") => handfast_import::caddy(path, nowhere),
            _ => {
                let text = std::fs::read_to_string(path).expect("it is there");
                let arguments: Vec<_> = text.lines().map(str::to_owned).collect();
                handfast_import::ghostunnel(&arguments, nowhere)
            }
        };
        let folder = format!("{}/", path.parent().unwrap_or(nowhere).display());
        let text = match imported {
            Err(error) => format!("{error}\n"),
            Ok(imported) => {
                if imported.is_whole() {
                    let parsed =
                        config::parse("handfast.toml", &imported.config, &|path| path.ends_with("conf.d"));
                    assert!(parsed.is_ok(), "{name}: {:?}\n{}", parsed.err(), imported.config);
                }
                let notes: String = imported.notes.iter().map(|note| format!("{note}\n")).collect();
                format!("{notes}\n{}", imported.config)
            }
        };
        text.replace(&folder, "")
    }

    #[test]
    fn public_questions_become_what_is_written_down() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../handfast-import/testdata/questions"));
        let folder = folder.canonicalize().expect("it is in the tree");
        let entries = std::fs::read_dir(&folder).expect("it is in the tree");
        let is_old = |path: &PathBuf| {
            path.extension().is_some_and(|end| ["conf", "args", "cfg", "json"].iter().any(|one| end == *one))
        };
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_old).collect();
        files.sort_unstable();
        assert!(files.len() >= 20, "{files:?}");
        for file in files {
            let (now, kept) = (becomes(&file), file.with_extension("becomes"));
            if std::env::var_os("HANDFAST_WRITE_IMPORTED").is_some() {
                std::fs::write(&kept, &now).expect("the tree is writable");
            }
            let kept_text = std::fs::read_to_string(&kept).unwrap_or_default();
            assert!(now == kept_text, "{} is out of date; it becomes\n{now}", kept.display());
        }
    }

    #[test]
    fn every_option_has_one_row() {
        for origin in ORIGINS {
            let mut names: Vec<_> = origin.rows().iter().map(|row| row.name).collect();
            names.sort_unstable();
            let count = names.len();
            names.dedup();
            assert_eq!(names.len(), count, "{}: a row is there twice", origin.name());
        }
    }
}
