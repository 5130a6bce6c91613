//! The first layer of every request: which requests are accepted at all. And the headers of every response.
//!
//! A page of another site can make a browser send requests to the loopback (DNS rebinding, forms, images), and every
//! user of the machine can connect. So, in this order: the `Host` must be ours (a rebound name is not), the `Origin`
//! and `Sec-Fetch-Site` must be those of our own page if the browser sends them (except to open the page itself), and everything under `/api` needs the
//! token, which no browser adds by itself. No answer ever has a CORS header.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, Uri, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use crate::{
    app::App,
    error::{ApiError, ApiResult},
    token::TokenCheck,
};

/// The policy for our own page. Images may be blobs: an attachment needs the token, so the page fetches it. The
/// vendored template library has a Trusted Types policy; nothing else may make markup out of a string.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
    connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
    require-trusted-types-for 'script'; trusted-types lit-html";
/// The policy for a response of the API that is opened as a page: nothing is allowed.
const API_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";
/// What the API begins with.
pub(crate) const API: &str = "/api";

/// Lets a request through, or refuses it.
pub(crate) async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let is_api = is_under_api(request.uri());
    let mut response = match check(&app, &request) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CONTENT_SECURITY_POLICY, if is_api { API_POLICY } else { PAGE_POLICY }),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_api {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

fn check(app: &App, request: &Request) -> ApiResult<()> {
    let (headers, uri) = (request.headers(), request.uri());
    let host = only(headers, &header::HOST).ok_or_else(ApiError::misdirected)?;
    let authority = uri.authority().map_or(host, |authority| authority.as_str());
    if !app.hosts.is_ours(host) || !app.hosts.is_ours(authority) {
        return Err(ApiError::misdirected());
    }
    if headers.contains_key(header::ORIGIN) && !is_own_origin(headers, host) {
        return Err(ApiError::forbidden("the Origin of this request is another site"));
    }
    let site = HeaderMap::get(headers, "sec-fetch-site");
    let is_own = site.is_none_or(|site| site == "same-origin" || site == "none");
    if !is_own && !is_visit(request) {
        return Err(ApiError::forbidden("another site made the browser send this request"));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD | Method::POST) {
        return Err(ApiError::method_not_allowed());
    }
    if is_under_api(uri) {
        authorize(app, headers)?;
        if request.method() == Method::POST && app.is_read_only {
            return Err(ApiError::forbidden(
                "this server changes nothing: it runs with --read-only",
            ));
        }
    }
    Ok(())
}

fn authorize(app: &App, headers: &HeaderMap) -> ApiResult<()> {
    let shown = only(headers, &header::AUTHORIZATION).and_then(|text| text.split_once(' '));
    let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some((_, token)) = shown else { return Err(ApiError::unauthorized()) };
    match app.token.check(token.trim().as_bytes()) {
        TokenCheck::Right => Ok(()),
        TokenCheck::Wrong => Err(ApiError::unauthorized()),
        TokenCheck::WrongAgain => Err(ApiError::too_many_requests()),
    }
}

/// Whether the user opens the page, by a link in a message or by `raymond open`. The page itself has nothing of any run
/// and cannot be framed; what it shows needs the token.
fn is_visit(request: &Request) -> bool {
    let is = |name: &str, value: &str| {
        HeaderMap::get(request.headers(), name).is_some_and(|it| it == value)
    };
    !is_under_api(request.uri())
        && request.method() == Method::GET
        && !request.headers().contains_key(header::ORIGIN)
        && is("sec-fetch-mode", "navigate")
        && is("sec-fetch-dest", "document")
}

/// Whether the request's origin is this server, under the name by which it was asked. A reverse proxy may add TLS.
fn is_own_origin(headers: &HeaderMap, host: &str) -> bool {
    let origin = only(headers, &header::ORIGIN).unwrap_or_default();
    let host_of = |scheme| origin.strip_prefix(scheme);
    let of_origin = host_of("http://").or_else(|| host_of("https://"));
    of_origin.is_some_and(|of_origin| of_origin.eq_ignore_ascii_case(host))
}

fn is_under_api(uri: &Uri) -> bool {
    let rest = uri.path().strip_prefix(API);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The value of a header that is there exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

/// The names under which the server may be asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    names: Vec<String>,
}

impl Hosts {
    /// The loopback and `address` with this port, and `more`: names for a reverse proxy, with or without a port. An
    /// address is as safe as the loopback: only a name can be made to lead elsewhere.
    pub(crate) fn new(address: IpAddr, port: u16, more: &[String]) -> Self {
        let loopback = ["127.0.0.1", "[::1]", "localhost"];
        let mut names: Vec<_> = loopback.iter().map(|name| format!("{name}:{port}")).collect();
        names.push(SocketAddr::new(address, port).to_string());
        if port == 80 {
            names.extend(loopback.map(str::to_owned));
        }
        for name in more {
            names
                .extend([name.to_ascii_lowercase(), format!("{name}:{port}").to_ascii_lowercase()]);
        }
        Self { names }
    }

    fn is_ours(&self, host: &str) -> bool {
        self.names.iter().any(|name| name.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_with_the_own_port_are_ours() {
        let address = "192.0.2.7".parse().unwrap();
        let hosts = Hosts::new(address, 7420, &["Ray.example".to_owned()]);
        for ours in [
            "192.0.2.7:7420",
            "127.0.0.1:7420",
            "LOCALHOST:7420",
            "[::1]:7420",
            "ray.example",
            "ray.example:7420",
        ] {
            assert!(hosts.is_ours(ours), "{ours}");
        }
        for foreign in [
            "",
            "localhost",
            "127.0.0.1:80",
            "192.0.2.7",
            "192.0.2.8:7420",
            "evil.example",
            "127.0.0.1:7420.evil.example",
            "a.ray.example",
        ] {
            assert!(!hosts.is_ours(foreign), "{foreign}");
        }
    }
}
