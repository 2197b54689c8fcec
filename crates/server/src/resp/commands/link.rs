//! `GET` and `SET`: links, once there is a registry that keeps them.

use keymill_api::{Code, Refusal};

use super::{Call, Outcome};

pub(crate) fn get(call: &mut Call<'_>) -> Outcome {
    call.refuse(&registry_off())
}

pub(crate) fn set(call: &mut Call<'_>) -> Outcome {
    call.refuse(&registry_off())
}

fn registry_off() -> Refusal {
    Refusal::new(
        Code::RegistryOff,
        "this node keeps no links; take keys with LPOP and keep the links yourself",
    )
}
