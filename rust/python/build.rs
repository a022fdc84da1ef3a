//! Copies the stub's docstrings into the module.
//!
//! Users and editors read the stub `_tidegate.pyi`, so docstrings are written only there. This
//! script copies each docstring into a macro that the bindings use, such as
//! `manual!(interval_join)` or `manual!(Source.push)`. The build fails if a public item has no
//! docstring.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::Path;

const STUB: &str = "../../python/tidegate/_tidegate.pyi";
const QUOTES: &str = "\"\"\"";

fn main() {
    println!("cargo:rerun-if-changed={STUB}");
    println!("cargo:rerun-if-changed=build.rs");
    let stub = fs::read_to_string(STUB).unwrap_or_else(|error| panic!("{STUB}: {error}"));
    let mut manual = String::from("macro_rules! manual {\n");
    for (name, text) in docstrings(&stub) {
        writeln!(manual, "    ({name}) => {{ {text:?} }};")
            .expect("writing to a string cannot fail");
    }
    manual.push_str("}\n");
    let out = env::var_os("OUT_DIR").expect("Cargo sets the output folder");
    fs::write(Path::new(&out).join("manual.rs"), manual).expect("the folder can be written to");
}

/// Returns the docstrings of the module and of its classes, methods and functions, by name.
///
/// The stub is formatted, so a line's indentation shows which item the line belongs to.
fn docstrings(stub: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = stub.lines().collect();
    let (text, mut at) = docstring(&lines, 0, 0);
    let mut found = vec![("_tidegate".to_owned(), text)];
    let mut class = "";
    while at < lines.len() {
        let (line, number) = (lines[at], at);
        at += 1;
        let code = line.trim_start();
        let indent = line.len() - code.len();
        let header = code.strip_prefix("class ").or_else(|| code.strip_prefix("def "));
        let name = header.map_or("", identifier);
        if indent == 0 && !code.is_empty() {
            class = if code.starts_with("class ") { name } else { "" };
        }
        let is_setter = lines[number.saturating_sub(1)].ends_with(".setter");
        if name.is_empty() || name.starts_with('_') || class.starts_with('_') || is_setter {
            continue;
        }
        let text;
        (text, at) = docstring(&lines, after_header(&lines, number), indent + 4);
        found.push((if indent == 0 { name.to_owned() } else { format!("{class}.{name}") }, text));
    }
    found
}

/// Returns the identifier at the beginning of a string.
fn identifier(text: &str) -> &str {
    text.split(|letter: char| letter != '_' && !letter.is_alphanumeric()).next().unwrap_or(text)
}

/// Returns the line number after the header of a class or function. The header can span several
/// lines.
fn after_header(lines: &[&str], first: usize) -> usize {
    let is_end = |line: &&str| line.ends_with(':') || line.ends_with("...");
    first + 1 + lines[first..].iter().position(is_end).unwrap_or(0)
}

/// Returns the docstring that begins on line `first`, without its indentation, and the number of
/// the line after it.
fn docstring(lines: &[&str], first: usize, indent: usize) -> (String, usize) {
    let refuse = |why: &str| -> ! { panic!("{STUB}:{}: {why}", first + 1) };
    let margin = " ".repeat(indent);
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate().skip(first) {
        let mut line = line.strip_prefix(&*margin).unwrap_or(line.trim_start());
        if number == first {
            line = line.strip_prefix(QUOTES).unwrap_or_else(|| refuse("expected a docstring"));
        }
        if line.contains('\\') {
            refuse("the docstring has a backslash, which Python reads as an escape");
        }
        if let Some((last, _)) = line.split_once(QUOTES) {
            text.push_str(last);
            return (text.trim_end().to_owned(), number + 1);
        }
        text.push_str(line);
        text.push('\n');
    }
    refuse("expected a docstring with an end")
}
