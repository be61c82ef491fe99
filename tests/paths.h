// Where tests find their inputs and the program. One source holds the paths, so that compiled tests
// can be shared between checkouts.
#pragma once

#include <string>
#include <string_view>

namespace foretrain {

// tests/data/`name`.
std::string TestDataPath(std::string_view name);

// `path` in the repository.
std::string SourcePath(std::string_view path);

// The executable `foretrain` of this build.
std::string ForetrainBinary();

// The same with tests/stop_points.cc in it.
std::string StoppableBinary();

// The library that tests/plugins/fake_plugin.cc makes as `name`.
std::string TestPlugin(std::string_view name);

}  // namespace foretrain
