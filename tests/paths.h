// Paths of test inputs and of the program. One source holds them, so that compiled tests can be
// shared between checkouts.
#pragma once

#include <string>
#include <string_view>

namespace foretrain {

// tests/data/`name`.
std::string TestDataPath(std::string_view name);

// Absolute path of `path` in the repository.
std::string SourcePath(std::string_view path);

// The executable `foretrain` of this build.
std::string ForetrainBinary();

// The same, linked with tests/stop_points.cc.
std::string StoppableBinary();

// The library that tests/plugins/fake_plugin.cc builds as `name`.
std::string TestPlugin(std::string_view name);

}  // namespace foretrain
