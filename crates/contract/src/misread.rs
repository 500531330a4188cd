//! Says what is wrong with a JSON value, a query or the arguments of a tool that could not be read. The
//! sentences of the parser name types of Rust; here they become words for the author of a request.
//! A sentence that is not known stays as it is.

/// What is wrong, and with which field: `at` is its path, empty for the whole value.
pub fn in_words(sentence: &str, at: &str) -> String {
    let field = match at {
        "" | "." => "it".to_owned(),
        at => format!("`{at}`"),
    };
    for start in ["invalid type: ", "invalid value: ", "invalid length "] {
        let found = sentence.strip_prefix(start).and_then(|rest| rest.split_once(", expected "));
        if let Some((given, wanted)) = found {
            return format!("{field} must be {}, not {}", wanted_form(wanted), given_form(given));
        }
    }
    if let Some(rest) = sentence.strip_prefix("unknown variant ") {
        let (given, known) = rest.split_once(", ").unwrap_or((rest, ""));
        return format!("{field} cannot be {given}: {known}");
    }
    match sentence {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            format!("{field} must be a whole number of 0 or more")
        }
        "number too large to fit in target type" => format!("{field} is too large a number"),
        "provided string was not `true` or `false`" => format!("{field} must be true or false"),
        _ => match whole(sentence, at) {
            "" | "." => sentence.to_owned(),
            whole => format!("`{whole}`: {sentence}"),
        },
    }
}

/// The path of the value that a sentence is about: where the sentence names an unknown field, the object
/// that has it.
fn whole<'a>(sentence: &str, at: &'a str) -> &'a str {
    match sentence.starts_with("unknown field ") {
        true => at.rsplit_once('.').map_or("", |(whole, _)| whole),
        false => at,
    }
}

fn given_form(given: &str) -> String {
    let number = given.strip_prefix("integer ").or_else(|| given.strip_prefix("floating point "));
    match (number, given.strip_prefix("string ")) {
        (Some(number), _) => format!("the number {}", number.trim_matches('`')),
        (None, Some(text)) => format!("the string {text}"),
        (None, None) => match given {
            "map" => "an object".to_owned(),
            "sequence" => "a list".to_owned(),
            "null" | "unit value" | "Option value" => "null".to_owned(),
            other => other.trim_start_matches("boolean ").trim_matches('`').to_owned(),
        },
    }
}

fn wanted_form(wanted: &str) -> &str {
    match wanted {
        "u8" | "u16" | "u32" | "u64" | "usize" | "u128" => "a whole number of 0 or more",
        "i8" | "i16" | "i32" | "i64" | "isize" | "i128" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a map" => "an object",
        "a sequence" => "a list",
        "string or map" => "a string or an object",
        "path string" | "a string" | "string" | "str" => "a string",
        "unit" => "null",
        other if other.starts_with("struct ") => "an object",
        other if other.contains("tagged enum") || other.contains("variant of enum") => "an object",
        other if other.starts_with("enum ") => "a string or an object",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_the_parser_become_words() {
        let rows = [
            (
                "invalid type: integer `7`, expected a string",
                "prompt",
                "`prompt` must be a string, not the number 7",
            ),
            (
                "invalid type: string \"many\", expected u32",
                "limit",
                "`limit` must be a whole number of 0 or more, not the string \"many\"",
            ),
            (
                "invalid type: string \"x\", expected struct RunRequest",
                ".",
                "it must be an object, not the string \"x\"",
            ),
            (
                "invalid type: boolean `true`, expected f64",
                "budget_usd",
                "`budget_usd` must be a number, not true",
            ),
            (
                "invalid type: sequence, expected string or map",
                "wall",
                "`wall` must be a string or an object, not a list",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "a.b",
                "`a.b` must be a whole number of 0 or more, not the number -1",
            ),
            (
                "unknown variant `yes`, expected one of `deny`, `ask`",
                "permission",
                "`permission` cannot be `yes`: expected one of `deny`, `ask`",
            ),
            (
                "unknown field `usd`, expected `tokens` or `ms`",
                "budget.usd",
                "`budget`: unknown field `usd`, expected `tokens` or `ms`",
            ),
            ("missing field `cwd`", ".", "missing field `cwd`"),
            ("missing field `type`", "auth", "`auth`: missing field `type`"),
            (
                "unknown field `foo`, there are no fields",
                "foo",
                "unknown field `foo`, there are no fields",
            ),
            (
                "invalid digit found in string",
                "limit",
                "`limit` must be a whole number of 0 or more",
            ),
            ("provided string was not `true` or `false`", "live", "`live` must be true or false"),
            ("'foo' is not an id", "run_id", "`run_id`: 'foo' is not an id"),
            ("`wish` is the older name of `command`", ".", "`wish` is the older name of `command`"),
        ];
        for (sentence, at, words) in rows {
            assert_eq!(in_words(sentence, at), words);
        }
    }
}
