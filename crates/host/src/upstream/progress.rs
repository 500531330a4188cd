//! Progress that a server reports of open calls, handed to their callers in the order in which it came.
//! It is taken where messages leave and enter the connection: the library handles each notification in
//! a task of its own, so that later reports overtake earlier ones.

use crate::ops::relay::CallProgress;
use contract::limits::MCP_PROGRESS_CHARS_MAX;
use rmcp::model::{
    ClientJsonRpcMessage, GetExtensions as _, GetMeta as _, ProgressToken, ServerJsonRpcMessage,
    ServerNotification,
};
use rmcp::service::RoleClient;
use rmcp::transport::Transport;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// Which caller hears of which call. An entry lives as long as its call.
#[derive(Clone, Default)]
pub(super) struct Listeners(Arc<Mutex<HashMap<ProgressToken, mpsc::Sender<CallProgress>>>>);

/// Where the progress of a request goes; travels with the request to the transport.
#[derive(Clone)]
pub(super) struct ProgressTo(pub mpsc::Sender<CallProgress>);

impl Listeners {
    fn entries(
        &self,
    ) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, mpsc::Sender<CallProgress>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes who listens to a request that leaves.
    fn sent(&self, message: &ClientJsonRpcMessage) {
        let ClientJsonRpcMessage::Request(request) = message else { return };
        let listener = request.request.extensions().get::<ProgressTo>();
        let token = request.request.get_meta().get_progress_token();
        if let (Some(ProgressTo(listener)), Some(token)) = (listener, token) {
            self.entries().insert(token, listener.clone());
        }
    }

    /// Hands a report of progress to its listener.
    fn received(&self, message: &ServerJsonRpcMessage) {
        let ServerJsonRpcMessage::Notification(notification) = message else { return };
        let ServerNotification::ProgressNotification(told) = &notification.notification else {
            return;
        };
        let told = &told.params;
        let entries = self.entries();
        let Some(listener) = entries.get(&told.progress_token) else { return };
        let bounded = |text: &String| text.chars().take(MCP_PROGRESS_CHARS_MAX).collect();
        let message = told.message.as_ref().map(bounded);
        let report = CallProgress { progress: told.progress, total: told.total, message };
        // A caller that is slower than its server misses reports, and one that left needs none.
        let _ = listener.try_send(report);
    }

    /// The call was answered, or was given up.
    pub fn forget(&self, token: &ProgressToken) {
        self.entries().remove(token);
    }
}

/// A transport whose progress notifications are handed on in order.
pub(super) struct Ordered<T> {
    pub inner: T,
    pub listeners: Listeners,
}

impl<T: Transport<RoleClient> + 'static> Transport<RoleClient> for Ordered<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.listeners.sent(&message);
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let message = self.inner.receive().await;
        if let Some(message) = &message {
            self.listeners.received(message);
        }
        message
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
