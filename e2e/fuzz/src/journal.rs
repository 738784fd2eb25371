//! Laws of the journal of a node's agent: reading arbitrary bytes never panics; what is read is written back unchanged;
//! a torn slot loses nothing of the other one.

use muster_node::{
    Key,
    journal::{FORMAT, Identity, Reading, Record, SLOT, Step, frame, read},
};

/// A step, selected by a byte.
const STEPS: [Step; 8] = [
    Step::Prepared,
    Step::Swapping(1),
    Step::Swapped,
    Step::Reloaded,
    Step::Confirmed,
    Step::Restoring,
    Step::Restored,
    Step::RestoreFailed,
];

/// The laws, for the bytes as a journal, and as the remains of a slot after a power cut, beside a valid one.
pub fn check(bytes: &[u8]) {
    if let Reading::Record(record) = read(bytes) {
        let slots = [slot(&record), vec![0; SLOT]].concat();
        assert_eq!(read(&slots), Reading::Record(record), "written and read again");
    }
    let good = record(bytes);
    let torn: Vec<u8> = bytes
        .iter()
        .copied()
        .chain(std::iter::repeat(0))
        .take(SLOT)
        .collect();
    // The bytes may themselves be a record, or one of another version, with a valid checksum.
    let alone = read(&[torn.clone(), torn.clone()].concat());
    if matches!(alone, Reading::Record(_) | Reading::Newer) {
        return;
    }
    for slots in [[slot(&good), torn.clone()], [torn.clone(), slot(&good)]] {
        let found = read(&slots.concat());
        assert_eq!(
            found,
            Reading::Record(Box::new(good.clone())),
            "the other slot is unchanged"
        );
    }
}

fn slot(record: &Record) -> Vec<u8> {
    let json = serde_json::to_vec(record).unwrap_or_default();
    let mut slot = frame(FORMAT, &json);
    slot.resize(SLOT, 0);
    slot
}

fn record(bytes: &[u8]) -> Record {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    Record {
        seq: u64::from(byte(0)) + 1,
        identity: Identity {
            boot_id: "boot".to_owned(),
            machine_id: "machine".to_owned(),
        },
        row: "fabric".to_owned(),
        key: Key {
            digest: "sha256:0".to_owned(),
            token: u64::from(byte(1)),
            attempt: 0,
            definitions: "d".to_owned(),
        },
        plan: 1,
        tries: 0,
        step: STEPS[usize::from(byte(2)) % STEPS.len()],
        swapped: 0,
        deadline: u64::from(byte(3)),
        outcome: None,
    }
}
