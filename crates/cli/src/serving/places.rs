//! Places of connections before admission. If all are taken, a newcomer may displace another connection.
//!
//! A silent connection may keep its place for half a minute, so a host that takes all places would lock out everybody.
//! Therefore a newcomer displaces a connection of the address with the most places: the oldest silent one, or the
//! oldest one if that address has at least two places more than the newcomer's address. So a flooding host displaces
//! only its own connections, and a pairing is not interrupted for a newcomer whose address has as many places.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dfcp::AddressPrefix;
use tokio::sync::oneshot;

use crate::limits::UNADMITTED_MAX;

/// Places of peers before admission, at most [`UNADMITTED_MAX`].
#[derive(Debug, Default)]
pub struct Places {
    /// Connections, oldest first.
    taken: Mutex<Vec<Taken>>,
}

#[derive(Debug)]
struct Taken {
    place: Arc<()>,
    prefix: Option<AddressPrefix>,
    silent: bool,
    /// Dropping this sender notifies the connection that it has lost its place.
    _held: oneshot::Sender<Infallible>,
}

impl Places {
    /// Takes a place for a connection from `prefix`, possibly by displacing another connection; `None` if no place can
    /// be freed. Connections without an address count as one address.
    pub fn take(self: &Arc<Self>, prefix: Option<AddressPrefix>) -> Option<Place> {
        let mut taken = self.taken();
        if taken.len() >= UNADMITTED_MAX {
            let victim = victim(&taken, prefix)?;
            taken.remove(victim);
        }
        let (held, lost) = oneshot::channel();
        let place = Place { places: Arc::clone(self), id: Arc::new(()), lost };
        taken.push(Taken { place: Arc::clone(&place.id), prefix, silent: true, _held: held });
        Some(place)
    }

    fn taken(&self) -> MutexGuard<'_, Vec<Taken>> {
        // Poisoning is harmless: every change is complete before the lock is released.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the index of the connection to displace for one from `newcomer`.
fn victim(taken: &[Taken], newcomer: Option<AddressPrefix>) -> Option<usize> {
    let held = |prefix| taken.iter().filter(|taken| taken.prefix == prefix).count();
    let own = held(newcomer);
    let most = taken.iter().map(|taken| held(taken.prefix)).max()?;
    // A newcomer whose address has the most places can displace only connections of the same address.
    let gives = |taken: &Taken| if own == most { taken.prefix == newcomer } else { held(taken.prefix) == most };
    let silent = taken.iter().position(|taken| taken.silent && gives(taken));
    silent.or_else(|| if most > own + 1 { taken.iter().position(gives) } else { None })
}

/// Place of a connection; dropping it frees the place.
#[derive(Debug)]
pub struct Place {
    places: Arc<Places>,
    id: Arc<()>,
    lost: oneshot::Receiver<Infallible>,
}

impl Place {
    /// Returns a callback that marks this connection as no longer silent.
    pub fn voice(&self) -> impl Fn() + Send + Sync + use<> {
        let (places, id) = (Arc::clone(&self.places), Arc::clone(&self.id));
        move || {
            if let Some(own) = places.taken().iter_mut().find(|taken| Arc::ptr_eq(&taken.place, &id)) {
                own.silent = false;
            }
        }
    }

    /// Waits until the place is taken by another connection, possibly for ever.
    pub async fn lost(&mut self) {
        let Err(_gone) = (&mut self.lost).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().retain(|taken| !Arc::ptr_eq(&taken.place, &self.id));
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    fn from(text: &str) -> Option<AddressPrefix> {
        Some(AddressPrefix::from(text.parse::<IpAddr>().unwrap()))
    }

    fn host(number: usize) -> Option<AddressPrefix> {
        from(&format!("192.0.2.{number}"))
    }

    /// Takes `count` places for connections from `prefix`.
    fn take(places: &Arc<Places>, prefix: Option<AddressPrefix>, count: usize) -> Vec<Place> {
        (0..count).map(|_| places.take(prefix).unwrap()).collect()
    }

    /// Returns the indices of the connections that have lost their place.
    fn lost(held: &mut [Place]) -> Vec<usize> {
        let is_lost = |place: &mut Place| matches!(place.lost.try_recv(), Err(TryRecvError::Closed));
        held.iter_mut().enumerate().filter_map(|(i, place)| is_lost(place).then_some(i)).collect()
    }

    #[test]
    fn what_counts_as_one_address() {
        assert_eq!(from("2001:db8:1:2::3"), from("2001:db8:1:2:ffff::4"));
        assert_ne!(from("2001:db8:1:2::3"), from("2001:db8:1:3::3"));
        assert_eq!(from("::ffff:192.0.2.1"), host(1));
        assert_ne!(host(1), host(2));
    }

    #[test]
    fn a_host_with_every_place_makes_room_for_others_and_its_newest_for_nobody() {
        let places = Arc::new(Places::default());
        let mut attacker = take(&places, host(1), UNADMITTED_MAX);
        let honest = take(&places, host(2), 3);
        assert_eq!(lost(&mut attacker), [0, 1, 2]);
        let _more = take(&places, host(1), 10);
        assert_eq!(lost(&mut attacker), (0..13).collect::<Vec<_>>(), "it is in its own way only");
        assert_eq!(places.taken().len(), UNADMITTED_MAX);
        drop(honest);
        assert_eq!(places.taken().len(), UNADMITTED_MAX - 3);
    }

    #[test]
    fn a_host_whose_connections_all_speak_makes_room_too_but_not_for_itself() {
        let places = Arc::new(Places::default());
        let mut attacker = take(&places, host(1), UNADMITTED_MAX);
        attacker.iter().for_each(|place| place.voice()());
        assert!(places.take(host(1)).is_none());
        let _honest = places.take(host(2)).unwrap();
        assert_eq!(lost(&mut attacker), [0]);
    }

    #[test]
    fn among_equals_only_who_is_silent_makes_room() {
        let places = Arc::new(Places::default());
        let mut held: Vec<_> = (0..UNADMITTED_MAX).map(|i| places.take(host(i)).unwrap()).collect();
        for place in held.iter().filter(|place| !Arc::ptr_eq(&place.id, &held[40].id)) {
            place.voice()();
        }
        let newcomer = places.take(host(200)).unwrap();
        assert_eq!(lost(&mut held), [40], "the silent one");
        newcomer.voice()();
        assert!(places.take(host(201)).is_none(), "all of them are in the middle of something");
        assert!(places.take(host(0)).is_none());
        held.remove(7);
        assert!(places.take(host(201)).is_some(), "a place was given back");
    }

    #[tokio::test]
    async fn who_loses_its_place_is_told() {
        let places = Arc::new(Places::default());
        let mut attacker = take(&places, None, UNADMITTED_MAX);
        let _honest = places.take(host(2)).unwrap();
        attacker[0].lost().await;
    }
}
