//! Kinds of secrets, each with how it is made: literal pieces and characters by chance, in the
//! lengths that vendors hand out today. No key stands in this file.

use super::Chance;

/// A piece of a value.
#[derive(Debug, Clone, Copy)]
pub enum Piece {
    Is(&'static str),
    /// So many characters of an alphabet.
    Of(&'static str, usize),
}

pub struct Kind {
    pub name: &'static str,
    /// Told by its own form, whatever stands around it.
    pub vendor: bool,
    pieces: &'static [Piece],
}

impl Kind {
    pub fn value(&self, chance: &mut Chance) -> String {
        self.pieces
            .iter()
            .map(|piece| match piece {
                Piece::Is(text) => (*text).to_owned(),
                Piece::Of(letters, length) => chance.text(letters, *length),
            })
            .collect()
    }
}

const DIGIT: &str = "0123456789";
const HEX: &str = "0123456789abcdef";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const DASH: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const ANY: &str = "ABCdef0123456789!#$%&()*+,-./:;<=>?@[]^_{|}~\"'\\";
const WIDE: &str = "äöüßéèñçøåæλжщ漢字✓🔑abc123";

use Piece::{Is, Of};

macro_rules! kinds {
    ($($vendor:ident $name:literal: $($piece:expr),+;)+) => {
        &[$(Kind { name: $name, vendor: kinds!(@ $vendor), pieces: &[$($piece),+] }),+]
    };
    (@ vendor) => { true };
    (@ other) => { false };
}

pub const KINDS: &[Kind] = kinds! {
    vendor "amazon access key id": Is("AKIA"), Of(UPPER, 16);
    vendor "amazon temporary key id": Is("ASIA"), Of(UPPER, 16);
    vendor "github personal": Is("ghp_"), Of(ALNUM, 36);
    vendor "github oauth": Is("gho_"), Of(ALNUM, 36);
    vendor "github user": Is("ghu_"), Of(ALNUM, 36);
    vendor "github server": Is("ghs_"), Of(ALNUM, 36);
    vendor "github refresh": Is("ghr_"), Of(ALNUM, 76);
    vendor "github fine": Is("github_pat_"), Of(ALNUM, 22), Is("_"), Of(ALNUM, 59);
    vendor "gitlab personal": Is("glpat-"), Of(DASH, 20);
    vendor "gitlab deploy": Is("gldt-"), Of(DASH, 20);
    vendor "gitlab runner": Is("glrt-"), Of(DASH, 20);
    vendor "gitlab trigger": Is("glptt-"), Of(HEX, 40);
    vendor "slack bot": Is("xoxb-"), Of(DIGIT, 12), Is("-"), Of(DIGIT, 13), Is("-"), Of(ALNUM, 24);
    vendor "slack user": Is("xoxp-"), Of(DIGIT, 12), Is("-"), Of(DIGIT, 12), Is("-"), Of(HEX, 32);
    vendor "slack app": Is("xapp-1-A"), Of(UPPER, 10), Is("-"), Of(DIGIT, 13), Is("-"), Of(HEX, 64);
    vendor "slack hook": Is("https://hooks.slack.com/services/T"), Of(UPPER, 10), Is("/B"),
        Of(UPPER, 10), Is("/"), Of(ALNUM, 24);
    vendor "stripe live": Is("sk_live_"), Of(ALNUM, 24);
    vendor "stripe long": Is("sk_live_51"), Of(ALNUM, 97);
    vendor "stripe restricted": Is("rk_live_"), Of(ALNUM, 24);
    vendor "stripe hook": Is("whsec_"), Of(ALNUM, 32);
    vendor "openai": Is("sk-"), Of(ALNUM, 48);
    vendor "openai project": Is("sk-proj-"), Of(DASH, 74), Is("T3BlbkFJ"), Of(DASH, 74);
    vendor "anthropic": Is("sk-ant-api03-"), Of(DASH, 93), Is("AA");
    vendor "openrouter": Is("sk-or-v1-"), Of(HEX, 64);
    vendor "groq": Is("gsk_"), Of(ALNUM, 52);
    vendor "xai": Is("xai-"), Of(ALNUM, 80);
    vendor "perplexity": Is("pplx-"), Of(ALNUM, 48);
    vendor "replicate": Is("r8_"), Of(ALNUM, 37);
    vendor "hugging face": Is("hf_"), Of(ALNUM, 34);
    vendor "google api": Is("AIzaSy"), Of(DASH, 33);
    vendor "google access": Is("ya29.a0"), Of(DASH, 180);
    vendor "google client": Is("GOCSPX-"), Of(DASH, 28);
    vendor "npm": Is("npm_"), Of(ALNUM, 36);
    vendor "pypi": Is("pypi-AgEIcHlwaS5vcmc"), Of(DASH, 150);
    vendor "rubygems": Is("rubygems_"), Of(HEX, 48);
    vendor "docker": Is("dckr_pat_"), Of(DASH, 27);
    vendor "sendgrid": Is("SG."), Of(DASH, 22), Is("."), Of(DASH, 43);
    vendor "mailgun": Is("key-"), Of(HEX, 32);
    vendor "brevo": Is("xkeysib-"), Of(HEX, 64), Is("-"), Of(ALNUM, 16);
    vendor "twilio": Is("SK"), Of(HEX, 32);
    vendor "digitalocean": Is("dop_v1_"), Of(HEX, 64);
    vendor "databricks": Is("dapi"), Of(HEX, 32);
    vendor "supabase": Is("sbp_"), Of(HEX, 40);
    vendor "heroku": Is("HRKU-"), Of(HEX, 8), Is("-"), Of(HEX, 4), Is("-4"), Of(HEX, 3), Is("-a"),
        Of(HEX, 3), Is("-"), Of(HEX, 12);
    vendor "tailscale": Is("tskey-auth-k"), Of(ALNUM, 11), Is("CNTRL-"), Of(ALNUM, 32);
    vendor "pulumi": Is("pul-"), Of(HEX, 40);
    vendor "vault": Is("hvs."), Of(DASH, 95);
    vendor "doppler": Is("dp.pt."), Of(ALNUM, 43);
    vendor "planetscale": Is("pscale_tkn_"), Of(DASH, 43);
    vendor "linear": Is("lin_api_"), Of(ALNUM, 40);
    vendor "notion": Is("ntn_"), Of(ALNUM, 46);
    vendor "atlassian": Is("ATATT3xFfGF0"), Of(DASH, 171), Is("="), Of(HEX, 8);
    vendor "postman": Is("PMAK-"), Of(HEX, 24), Is("-"), Of(HEX, 34);
    vendor "figma": Is("figd_"), Of(DASH, 40);
    vendor "grafana": Is("glsa_"), Of(ALNUM, 32), Is("_"), Of(HEX, 8);
    vendor "new relic": Is("NRAK-"), Of(UPPER, 27);
    vendor "shopify": Is("shpat_"), Of(HEX, 32);
    vendor "square": Is("sq0atp-"), Of(DASH, 22);
    vendor "age": Is("AGE-SECRET-KEY-1"), Of("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58);
    vendor "web token": Is("eyJhbGciOiJIUzI1NiJ9.eyJzdWIi"), Of(DASH, 60), Is("."), Of(DASH, 43);
    vendor "telegram": Of("123456789", 10), Is(":AA"), Of(DASH, 33);
    other "amazon secret": Of(BASE64, 40);
    other "password": Of(ALNUM, 12);
    other "password of signs": Of(ANY, 16);
    other "password beyond ascii": Of(WIDE, 10);
    other "short": Of(LOWER, 6);
    other "pin": Of(DIGIT, 8);
    other "passphrase": Of(LOWER, 6), Is(" "), Of(LOWER, 7), Is(" "), Of(LOWER, 5);
    other "hexadecimal": Of(HEX, 64);
    other "uuid": Of(HEX, 8), Is("-"), Of(HEX, 4), Is("-4"), Of(HEX, 3), Is("-9"), Of(HEX, 3),
        Is("-"), Of(HEX, 12);
    other "connection": Is("postgres://app:"), Of(ALNUM, 16), Is("@db.internal:5432/main?ssl=1");
    other "private key": Is("-----BEGIN PRIVATE KEY-----\n"), Of(BASE64, 64), Is("\n"),
        Of(BASE64, 64), Is("\n"), Of(BASE64, 30), Is("==\n-----END PRIVATE KEY-----\n");
    other "account file": Is("{\"type\":\"service_account\",\"private_key_id\":\""), Of(HEX, 40),
        Is("\",\"client_id\":\""), Of(DIGIT, 21), Is("\"}");
};
