"""Calls of services: whoever asks before the server knows them would wait for a response that is dropped."""

import signal

import pytest
from roslive import PATIENCE_S
from std_srvs.srv import Trigger

from svfm_ros.nodes.client import call_trigger, wait_for_server

pytestmark = pytest.mark.ros


def test_a_server_is_ready_when_it_answers_and_not_when_it_is_seen(start, listener):
    node = start("-m", "svfm_ros.nodes.trainer_node")
    answer = call_trigger(listener.node, "/trainer_node/train_now", PATIENCE_S)
    assert answer == (False, "expected two or more walks, got 0")
    node.send_signal(signal.SIGSTOP)
    client = listener.node.create_client(Trigger, "/trainer_node/train_now")
    assert client.wait_for_service(PATIENCE_S)
    assert not wait_for_server(listener.node, client, 0.1)
    node.send_signal(signal.SIGCONT)
    assert wait_for_server(listener.node, client, PATIENCE_S)
    assert not call_trigger(listener.node, "/nobody/train_now", 0.1)[0]
