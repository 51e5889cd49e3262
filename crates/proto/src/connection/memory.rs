//! Whose memory blocks take.

use crate::connection::{Connection, Receiver, Sender};
use crate::recv::budget::Account;
use crate::spare::SpareBlocks;

impl Connection {
    /// From now on, received blocks are paid for out of `account`. To be called before the first one comes.
    pub(crate) fn pay_from(&mut self, account: Account) {
        match &mut self.receiver {
            Receiver::Classic(receiver) => receiver.pay_from(account),
            Receiver::Modern(receiver) => receiver.pay_from(account),
        }
    }

    /// Memory of modern blocks comes from `spare`, and goes back to it.
    pub(crate) fn take_from(&mut self, spare: &SpareBlocks) {
        if let Sender::Modern(sender) = &mut self.sender {
            sender.take_from(spare.clone());
        }
        if let Receiver::Modern(receiver) = &mut self.receiver {
            receiver.take_from(spare.clone());
        }
    }
}
