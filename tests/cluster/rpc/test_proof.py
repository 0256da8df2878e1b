"""Proofs: every field counts, and no two inputs read the same."""

from hypothesis import given, settings
from hypothesis import strategies as st

from secmon.cluster.rpc import proof
from secmon.cluster.rpc.gen import secmon_pb2 as pb

KEY = b"k" * 32
TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
HELLOS = st.builds(
    pb.NodeHello,
    node_name=TEXT,
    cluster_name=TEXT,
    version=TEXT,
    installation_id=TEXT,
    protocol=st.integers(0, 3),
    min_protocol=st.integers(0, 3),
    peer_port=st.integers(0, 3),
    clock=st.sampled_from([0.0, 1.0]),
    term=st.integers(0, 1),
    address=st.sampled_from(["", "a"]),
)
REQUESTS = st.builds(pb.EnrolRequest, hello=HELLOS, csr=st.binary(max_size=4), nonce=st.binary(max_size=4), reason=TEXT)


@settings(max_examples=200)
@given(REQUESTS, REQUESTS, st.binary(max_size=4), st.binary(max_size=4))
def test_requests_that_differ_prove_differently(
    one: pb.EnrolRequest, other: pb.EnrolRequest, seen: bytes, other_seen: bytes
) -> None:
    same = one == other and seen == other_seen
    assert (proof.enrolment(KEY, one, seen) == proof.enrolment(KEY, other, other_seen)) == same


def test_fields_are_delimited() -> None:
    left = pb.NodeHello(node_name="ab", cluster_name="c")
    right = pb.NodeHello(node_name="a", cluster_name="bc")
    assert proof.join(KEY, left, b"f") != proof.join(KEY, right, b"f")


def test_every_purpose_and_key_proves_differently() -> None:
    request, enrolled = pb.EnrolRequest(), pb.Enrolled()
    proofs = [
        proof.enrolment(KEY, request, b""),
        proof.reply(KEY, enrolled, b""),
        proof.join(KEY, pb.NodeHello(), b""),
        proof.enrolment(b"x" * 32, request, b""),
    ]
    assert len(set(proofs)) == len(proofs)
    assert proof.verify(proofs[0], proof.enrolment(KEY, request, b""))
    assert not proof.verify(proofs[0], b"")


def test_every_field_of_the_hello_message_is_proved() -> None:
    """A field added to the wire must be added to the proof."""
    covered = {"node_name", "cluster_name", "version", "installation_id", "protocol", "min_protocol", "peer_port"}
    assert {field.name for field in pb.NodeHello.DESCRIPTOR.fields} == covered | {"clock", "term", "address", "proof"}
