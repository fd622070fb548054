"""What the server says of itself."""

from pykubelet.apiserver.discovery.non_resource_paths import version_info


def test_the_version_says_which_others_it_goes_together_with() -> None:
    found = version_info("v1.34.11")
    assert (found["major"], found["minor"], found["gitVersion"]) == ("1", "34", "v1.34.11")
    assert (found["emulationMajor"], found["emulationMinor"]) == ("1", "34")
    assert (found["minCompatibilityMajor"], found["minCompatibilityMinor"]) == ("1", "33")
