//! The network between one worker and the server: a TCP proxy that can stop forwarding while all connections stay open,
//! as a network does that loses every packet.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

/// A network. Its threads end with their connections.
pub(crate) struct Network {
    /// Where it accepts connections.
    pub(crate) port: u16,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_cut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn wait_until_whole(&self) {
        drop(self.changed.wait_while(self.is_cut.lock().unwrap(), |is_cut| *is_cut).unwrap());
    }
}

impl Network {
    /// A network to the server at this port.
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let gate = Arc::new(Gate::default());
        let for_thread = Arc::clone(&gate);
        thread::spawn(move || {
            for accepted in listener.incoming() {
                let (gate, near) = (Arc::clone(&for_thread), accepted.unwrap());
                thread::spawn(move || connect(near, server, &gate));
            }
        });
        Self { port, gate }
    }

    pub(crate) fn cut(&self) {
        *self.gate.is_cut.lock().unwrap() = true;
    }

    pub(crate) fn mend(&self) {
        *self.gate.is_cut.lock().unwrap() = false;
        self.gate.changed.notify_all();
    }
}

/// Connects to the server, and forwards until one side closes. A server that is not there refuses.
fn connect(near: TcpStream, server: u16, gate: &Arc<Gate>) {
    gate.wait_until_whole();
    let Ok(far) = TcpStream::connect(("127.0.0.1", server)) else { return };
    let (to_near, to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    let back = Arc::clone(gate);
    thread::spawn(move || forward(far, to_near, &back));
    forward(near, to_far, gate);
}

fn forward(mut from: TcpStream, mut to: TcpStream, gate: &Gate) {
    let mut bytes = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        gate.wait_until_whole();
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    // A closed connection is news that does not get through, either.
    gate.wait_until_whole();
    for side in [&from, &to] {
        let _ = side.shutdown(Shutdown::Both);
    }
}
