#include "tests/paths.h"

namespace foretrain {

std::string TestDataPath(std::string_view name) {
  return std::string(FORETRAIN_TEST_DATA) + "/" + std::string(name);
}

std::string SourcePath(std::string_view path) {
  return std::string(FORETRAIN_SOURCE_DIR) + "/" + std::string(path);
}

std::string ForetrainBinary() { return FORETRAIN_BINARY; }

std::string StoppableBinary() { return FORETRAIN_STOPPABLE_BINARY; }

std::string TestPlugin(std::string_view name) {
  return std::string(FORETRAIN_TEST_PLUGINS) + "/libfake_" + std::string(name) + ".so";
}

}  // namespace foretrain
