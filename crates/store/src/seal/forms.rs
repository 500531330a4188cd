//! The published forms of vendors' keys: how each begins and what follows. Written from the
//! vendors' own documentation. A form hangs on its literal beginning, so that `rules.rs` can tell
//! from a few bytes whether it is worth a look. One row per form; the tests hold, for every row,
//! texts that are such keys and texts that are not.

/// The characters of what follows the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// Digits and letters.
    Alnum,
    /// Digits and capital letters.
    Upper,
    /// Hexadecimal digits in lower case.
    Hex,
    /// Digits, letters and `_`.
    Word,
    /// Digits, letters, `_` and `-`.
    Dash,
    /// The same and `.`.
    Dots,
    /// Base64 of any kind.
    Base64,
}

impl Alphabet {
    pub fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Dash => byte.is_ascii_alphanumeric() || b"_-".contains(&byte),
            Self::Dots => byte.is_ascii_alphanumeric() || b"_-.".contains(&byte),
            Self::Base64 => byte.is_ascii_alphanumeric() || b"_-+/=,".contains(&byte),
        }
    }
}

/// One form.
#[derive(Debug, Clone, Copy)]
pub(super) struct Form {
    pub begin: &'static str,
    pub alphabet: Alphabet,
    /// How many characters follow at least.
    pub least: usize,
}

const fn form(begin: &'static str, alphabet: Alphabet, least: usize) -> Form {
    Form { begin, alphabet, least }
}

use Alphabet::{Alnum, Base64, Dash, Dots, Hex, Upper, Word};

/// Every form, by vendor.
pub(super) const FORMS: &[Form] = &[
    // Amazon: ids of access keys.
    form("AKIA", Upper, 16),
    form("ASIA", Upper, 16),
    form("ABIA", Upper, 16),
    // GitHub.
    form("ghp_", Alnum, 30),
    form("gho_", Alnum, 30),
    form("ghu_", Alnum, 30),
    form("ghs_", Alnum, 30),
    form("ghr_", Alnum, 30),
    form("github_pat_", Word, 30),
    // GitLab.
    form("glpat-", Dots, 20),
    form("gldt-", Dash, 20),
    form("glrt-", Dots, 20),
    form("glptt-", Hex, 40),
    form("glcbt-", Dash, 20),
    // Slack.
    form("xoxa-", Dash, 20),
    form("xoxb-", Dash, 20),
    form("xoxp-", Dash, 20),
    form("xoxr-", Dash, 20),
    form("xoxs-", Dash, 20),
    form("xoxe.", Dots, 20),
    form("xapp-", Dash, 20),
    form("hooks.slack.com/services/", Base64, 30),
    // Stripe.
    form("sk_live_", Alnum, 16),
    form("sk_test_", Alnum, 16),
    form("rk_live_", Alnum, 16),
    form("rk_test_", Alnum, 16),
    form("whsec_", Base64, 24),
    // OpenAI, Anthropic, OpenRouter and those that took over the habit.
    form("sk-", Dash, 20),
    // Groq, xAI, Perplexity, Replicate, Hugging Face.
    form("gsk_", Alnum, 40),
    form("xai-", Alnum, 40),
    form("pplx-", Alnum, 40),
    form("r8_", Alnum, 32),
    form("hf_", Alnum, 30),
    // Google: API keys, access tokens, client secrets.
    form("AIza", Dash, 35),
    form("ya29.", Dash, 20),
    form("GOCSPX-", Dash, 24),
    // Package registries.
    form("npm_", Alnum, 36),
    form("pypi-AgEI", Dash, 50),
    form("rubygems_", Hex, 48),
    form("dckr_pat_", Dash, 20),
    // Mail and messages.
    form("SG.", Dots, 40),
    form("key-", Hex, 32),
    form("xkeysib-", Dash, 60),
    form("SK", Hex, 32),
    // Clouds and hosts.
    form("dop_v1_", Hex, 64),
    form("doo_v1_", Hex, 64),
    form("dor_v1_", Hex, 64),
    form("dapi", Hex, 32),
    form("FlyV1 ", Base64, 40),
    form("fm2_", Base64, 40),
    form("sbp_", Hex, 40),
    form("sb_secret_", Dash, 20),
    form("vcp_", Alnum, 24),
    form("vck_", Alnum, 24),
    form("nfp_", Alnum, 30),
    form("HRKU-", Dash, 36),
    form("tskey-", Dash, 20),
    form("pul-", Hex, 40),
    form("hvs.", Dash, 24),
    form("hvb.", Dash, 24),
    form("dp.pt.", Alnum, 40),
    form("pscale_tkn_", Dots, 32),
    form("pscale_pw_", Dots, 32),
    form("AccountKey=", Base64, 80),
    // Work.
    form("lin_api_", Alnum, 32),
    form("ntn_", Alnum, 40),
    form("secret_", Alnum, 43),
    form("ATATT3", Base64, 60),
    form("PMAK-", Dash, 50),
    form("figd_", Dash, 40),
    form("glsa_", Word, 32),
    form("sntrys_", Base64, 40),
    form("NRAK-", Upper, 27),
    form("bkua_", Hex, 40),
    form("lsv2_pt_", Word, 32),
    // Shops and money.
    form("shpat_", Hex, 32),
    form("shpca_", Hex, 32),
    form("shppa_", Hex, 32),
    form("shpss_", Hex, 32),
    form("sq0atp-", Dash, 22),
    form("sq0csp-", Dash, 43),
    form("EAAA", Dash, 56),
    // Identities of age.
    form("AGE-SECRET-KEY-1", Upper, 58),
];

impl Form {
    /// Where the key that begins at `at` ends, by its characters alone.
    pub fn end(&self, text: &[u8], at: usize) -> Option<usize> {
        let rest = text.get(at..)?.strip_prefix(self.begin.as_bytes())?;
        let body = rest.iter().take_while(|byte| self.alphabet.has(**byte)).count();
        // A full stop or comma after a key belongs to the sentence.
        let body = rest[..body].trim_ascii_end().len();
        let body = body - rest[..body].iter().rev().take_while(|byte| b".,".contains(byte)).count();
        let random =
            rest[..body].iter().any(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
        // Words joined by hyphens or underscores have neither digits nor capitals.
        (body >= self.least && random).then_some(at + self.begin.len() + body)
    }

    /// The key that begins at `at`, if it stands by itself.
    pub fn find(&self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        let before = at.checked_sub(1).map(|before| text[before]);
        let inside_word = before.is_some_and(|byte| Alphabet::Dash.has(byte));
        let end = self.end(text, at).filter(|_| !inside_word)?;
        // Alphabets of few characters end in the middle of a longer word.
        let cut = matches!(self.alphabet, Hex | Upper)
            && text.get(end).is_some_and(u8::is_ascii_alphanumeric);
        (!cut).then_some((at, end))
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules;

    fn redacted(text: &str) -> String {
        rules::redact(text.as_bytes())
            .map_or_else(|| text.to_owned(), |out| String::from_utf8(out).unwrap())
    }

    /// A body of this length that looks like chance, from an alphabet.
    fn body(alphabet: super::Alphabet, length: usize, seed: u64) -> String {
        let letters: Vec<char> = (33u8..127)
            .filter(|byte| alphabet.has(*byte) && byte.is_ascii_alphanumeric())
            .map(char::from)
            .collect();
        let mut state = seed;
        (0..length)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                letters[(state >> 33) as usize % letters.len()]
            })
            .collect()
    }

    /// The keys are put together here, so that none stands in the source.
    #[test]
    fn every_form_is_redacted_where_it_stands_and_nothing_around_it() {
        for form in super::FORMS {
            for (seed, longer) in [(1, 0), (2, 0), (3, 7)] {
                let longer =
                    if matches!(form.alphabet, super::Hex | super::Upper) { 0 } else { longer };
                let key =
                    format!("{}{}", form.begin, body(form.alphabet, form.least + longer, seed));
                for (before, after) in [
                    ("", ""),
                    ("use ", " now"),
                    ("(", ")"),
                    ("\"", "\","),
                    ("x=", "\n"),
                    ("see ", ". Then"),
                ] {
                    let text = format!("{before}{key}{after}");
                    assert!(rules::may_apply(text.as_bytes()), "{text}");
                    assert_eq!(redacted(&text), format!("{before}[redacted]{after}"), "{text}");
                }
            }
        }
    }

    #[test]
    fn what_only_begins_like_a_form_stays() {
        for form in super::FORMS {
            let short = body(form.alphabet, form.least - 1, 5);
            let inside = body(form.alphabet, form.least, 6);
            let wordy = "-ordinary".repeat(8);
            for text in [
                // Too short, by one character.
                format!("a {}{short} b", form.begin),
                // In the middle of a word.
                format!("a word{}{inside} b", form.begin),
                // Words, where a key would have characters by chance.
                format!("a {}{wordy} b", form.begin),
                format!("the {} of it", form.begin),
            ] {
                // A short key of one form may be long enough for another (`secret_`, `AccountKey=`).
                let other = super::FORMS.iter().any(|other| {
                    other.begin != form.begin
                        && (0..text.len()).any(|at| other.find(text.as_bytes(), at).is_some())
                });
                assert!(other || redacted(&text) == text, "{text} became {}", redacted(&text));
            }
        }
    }

    #[test]
    fn ordinary_code_is_not_taken_for_keys() {
        for text in [
            "npm_config_registry=https://registry.example.com/some/path/of/packages",
            "task-implementation-of-something-long-enough-to-be-a-key",
            "SKILL.md and SKETCHES and ASIA and AKIA",
            "hf_transfer hf_hub_download_with_a_long_name_indeed",
            "sk-learn, sk-ordinary-words-joined-by-hyphens",
            "secret_santa_list_of_the_whole_company_for_this_year",
            "r8_unorm rgba8_unorm_block_compressed_texture_format",
            "key-value-store-with-a-very-long-name-indeed-it-is",
            "dapi_server_with_a_long_name dapibus",
            "the commit 0123456789abcdef0123456789abcdef01234567",
            "id 123e4567-e89b-12d3-a456-426614174000",
        ] {
            assert_eq!(redacted(text), text);
        }
    }
}
