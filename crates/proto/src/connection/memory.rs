//! Whose memory received blocks take.

use crate::connection::{Connection, Receiver};
use crate::recv::budget::Account;

impl Connection {
    /// From now on, received blocks are paid for out of `account`. To be called before the first one comes.
    pub(crate) fn pay_from(&mut self, account: Account) {
        match &mut self.receiver {
            Receiver::Classic(receiver) => receiver.pay_from(account),
            Receiver::Modern(receiver) => receiver.pay_from(account),
        }
    }
}
