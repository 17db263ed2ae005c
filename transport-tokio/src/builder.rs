//! From settings to a client on tokio.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use steadfast_client::{
    Client, GrpcTransport, ServiceTransport, Settings, SettingsError, Transition,
};
use steadfast_h2::{Channel, ConnectionSettings, Http2Settings, channel};

use crate::host::TokioHost;
use crate::timer::TokioTimer;

/// A client on tokio: what [`connect`] answers.
pub type TokioClient = Client<Channel<TokioTimer>, TokioTimer>;

/// A client for the server that `settings` name.
///
/// The connection is kept by a task that is spawned here and ends with the last clone of the
/// client. Nothing is dialed before the first call.
///
/// # Errors
///
/// [`SettingsError`] names every field that is wrong.
///
/// # Panics
///
/// Outside a tokio runtime. In one without I/O and time (`enable_all`), the task that keeps the
/// connection does, and every call fails with UNAVAILABLE.
pub fn connect(settings: Settings) -> Result<TokioClient, SettingsError> {
    builder(settings).connect()
}

/// A client whose attempts go through a tower service that there is already: a tonic `Channel`,
/// a balanced one, an in-process router.
///
/// `settings.addr` names the server in errors; nothing is dialed here. What a
/// [`ServiceTransport`] can't know is said there.
///
/// # Errors
///
/// [`SettingsError`] names every field that is wrong.
pub fn around<S>(
    service: S,
    settings: Settings,
) -> Result<Client<ServiceTransport<S>, TokioTimer>, SettingsError>
where
    ServiceTransport<S>: GrpcTransport,
{
    builder(settings).around(service)
}

/// A client with more to say than settings.
pub fn builder(settings: Settings) -> Builder {
    Builder {
        settings,
        connection: ConnectionSettings::default(),
        http2: Http2Settings::default(),
        seed: None,
        listener: None,
    }
}

type Listener = Arc<dyn Fn(&Transition) + Send + Sync>;

/// Builds a client on tokio. Made by [`builder`].
#[must_use = "a builder does nothing until `connect`"]
pub struct Builder {
    settings: Settings,
    connection: ConnectionSettings,
    http2: Http2Settings,
    seed: Option<u64>,
    listener: Option<Listener>,
}

impl Builder {
    /// How the connection is kept. Default: 20 s to connect, closed after 30 idle minutes, no
    /// keepalive pings.
    pub fn connection(mut self, connection: ConnectionSettings) -> Self {
        self.connection = connection;
        self
    }

    /// HTTP/2's own limits: windows, header sizes, what is kept for streams that were reset.
    pub fn http2(mut self, http2: Http2Settings) -> Self {
        self.http2 = http2;
        self
    }

    /// Starts the jitter of retries and reconnects. Default: random, drawn from the operating
    /// system, so that no two clients of a fleet retry in step. A test gives a number.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Hears of every change of the breaker's state, one at a time and in order.
    pub fn on_transition(mut self, listener: impl Fn(&Transition) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// Builds the client and spawns the task that keeps its connection.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] names every field that is wrong.
    ///
    /// # Panics
    ///
    /// As [`connect`].
    pub fn connect(self) -> Result<TokioClient, SettingsError> {
        let more = self
            .connection
            .check()
            .into_iter()
            .chain(self.http2.check());
        let address = self.settings.parse_with(more)?;
        let timer = TokioTimer::new();
        let seed = self.drawn_seed();
        let (channel, driver) =
            channel(address, TokioHost, timer, self.connection, self.http2, seed);
        tokio::spawn(driver);
        self.client(channel, timer, seed)
    }

    /// Builds the client around a service, as [`around`] does. The service keeps its own
    /// connections: [`connection`](Self::connection) and [`http2`](Self::http2) have no say.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] names every field that is wrong.
    pub fn around<S>(
        self,
        service: S,
    ) -> Result<Client<ServiceTransport<S>, TokioTimer>, SettingsError>
    where
        ServiceTransport<S>: GrpcTransport,
    {
        let seed = self.drawn_seed();
        self.client(ServiceTransport::new(service), TokioTimer::new(), seed)
    }

    fn drawn_seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| RandomState::new().hash_one(0))
    }

    fn client<T: GrpcTransport>(
        self,
        transport: T,
        timer: TokioTimer,
        seed: u64,
    ) -> Result<Client<T, TokioTimer>, SettingsError> {
        match self.listener {
            None => Client::new(transport, timer, &self.settings, seed),
            Some(listener) => {
                let listener = move |transition: &Transition| listener(transition);
                Client::with_listener(transport, timer, &self.settings, seed, listener)
            }
        }
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("settings", &self.settings)
            .field("connection", &self.connection)
            .field("http2", &self.http2)
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
