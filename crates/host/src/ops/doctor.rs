//! Doctor as an operation: the diagnosis of a name that can be run, or of an adapter that is in no file
//! yet, by the same probes as `ostler doctor`. At most `limits::PROBES_MAX` names are probed at once, and
//! each ends at the deadline of doctor. What a program tells of its models is asked here too, because it
//! is a program under a keeper as well.

use super::agents::{self, DoctorSubject};
use super::run::stored;
use crate::Host;
use crate::clock;
use crate::diagnose::{Patient, Practice};
use contract::diagnosis::{Check, CheckCode, Diagnosis};
use contract::{Code, Fault, limits};
pub use runtimes::models::ModelListing;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// The name of an adapter that is in no file yet.
const UNSAVED: &str = "adapter";

/// The places of those that are probed at once by this process.
static PLACES: Semaphore = Semaphore::const_new(limits::PROBES_MAX);

/// What to look at: one of both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{ "required": ["name"] }, { "required": ["adapter"] }]))]
pub struct DoctorRequest {
    /// An agent, an adapter or a runtime, as `ostler run` takes it.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub name: Option<String>,
    /// An adapter that is not saved yet, with the keys of `adapters.<name>`. It names a program to run, so
    /// this needs the scope admin.
    #[serde(default, deserialize_with = "not_null", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub adapter: Option<Map<String, Value>>,
}

/// Reads a member that may be absent and not null, so that a request has one of both.
fn not_null<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// Looks at a name, or at an adapter. What is wrong is in the diagnosis; only a request for both or
/// neither, and one that finds every place taken, is a fault.
pub async fn diagnose(host: &Host, request: DoctorRequest) -> Result<Diagnosis, Fault> {
    let (name, found) = match (request.name, request.adapter) {
        (Some(name), None) => {
            let found = patient(host, &name).await;
            (name, found)
        }
        (None, Some(adapter)) => {
            let adapter = Value::Object(adapter);
            let subject = DoctorSubject::Adapter(UNSAVED, &adapter);
            (UNSAVED.to_owned(), host.inner.book.patient(subject))
        }
        (Some(_), Some(_)) | (None, None) => {
            let message = "give either `name` or `adapter`";
            return Err(Fault::new(Code::Usage, message));
        }
    };
    let patient = match found {
        Ok(patient) => patient,
        Err(fault) => return Ok(invalid(&name, fault)),
    };
    let _place = place().await?;
    Ok(practice(host)?.diagnose(&patient).await)
}

/// The models that the program of a name tells.
pub async fn models(host: &Host, name: &str) -> Result<ModelListing, Fault> {
    // The name is the path of the request, so one that nothing has is not found.
    let patient = patient(host, name).await.map_err(|fault| match fault.code {
        Code::UnknownAgent => Fault { code: Code::NotFound, ..fault },
        _ => fault,
    })?;
    let _place = place().await?;
    practice(host)?.models(&patient).await
}

/// The diagnosis of a name whose configuration cannot be used.
pub fn invalid(name: &str, fault: Fault) -> Diagnosis {
    let mut check = Check::new(CheckCode::ConfigurationInvalid, fault.message);
    check.hint = fault.hint;
    check.detail = fault.detail;
    Diagnosis::new(name, "unknown", vec![check], clock::now().wall)
}

/// What is looked at for a name: of the configuration, or hired.
async fn patient(host: &Host, name: &str) -> Result<Patient, Fault> {
    let book = &host.inner.book;
    match book.patient(DoctorSubject::Name(name)) {
        Err(fault) if fault.code == Code::UnknownAgent => {
            let row = host.store().agent(name).await.map_err(stored)?;
            let spec = row.as_ref().and_then(agents::spec_of);
            match spec {
                Some(spec) => book.patient(DoctorSubject::Hired(name, &spec)),
                None => Err(fault),
            }
        }
        found => found,
    }
}

fn practice(host: &Host) -> Result<Practice, Fault> {
    let house = &host.inner;
    Practice::open(house.program.clone(), house.environment.clone(), house.isolation)
}

async fn place() -> Result<SemaphorePermit<'static>, Fault> {
    let wait = Duration::from_millis(limits::DOCTOR_MS);
    let busy = || {
        let message = format!("{} names are being looked at already", limits::PROBES_MAX);
        Fault::new(Code::Conflict, message).with_hint("ask again in a few seconds")
    };
    let place = tokio::time::timeout(wait, PLACES.acquire()).await;
    // The semaphore is never closed.
    place.map_err(|_elapsed| busy())?.map_err(|_closed| busy())
}
