import pytest

from svfm_ros.sim.house import House, load_house
from svfm_ros.sim.routes import RouteBook
from svfm_ros.sim.walker import route_book


@pytest.fixture(scope="session")
def home() -> House:
    return load_house("home")


@pytest.fixture(scope="session")
def home_ways(home: House) -> RouteBook:
    return route_book(home)


@pytest.fixture(scope="session", params=["home", "bungalow"])
def any_house(request: pytest.FixtureRequest) -> House:
    return load_house(request.param)


@pytest.fixture(scope="session")
def any_ways(any_house: House) -> RouteBook:
    return route_book(any_house)
