#include "tests/app/run_binary.h"

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/paths.h"

namespace foretrain {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

ProgramEnd RunForetrain(const std::string& folder, const std::string& arguments) {
  return RunCommand(folder, "exec \"$FORETRAIN\" " + arguments);
}

ProgramEnd RunStoppable(const std::string& folder, const std::string& arguments,
                        const std::vector<std::string>& settings) {
  std::string script = "exec env";
  for (const std::string& setting : settings) script += " '" + setting + "'";
  return RunCommand(folder, script + " '" + StoppableBinary() + "' " + arguments);
}

ProgramEnd RunCommand(const std::string& folder, const std::string& script) {
  const std::string out = folder + "/stdout", err = folder + "/stderr";
  const std::string command = "cd '" + folder + "' && export XDG_CONFIG_HOME='" + folder +
                              "' FORETRAIN='" + ForetrainBinary() + "'; (" + script + "\n) >'" +
                              out + "' 2>'" + err + "'";
  const int status = std::system(command.c_str());
  ProgramEnd end;
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  end.output = ReadAll(out);
  end.errors = ReadAll(err);
  return end;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "foretrain-test-XXXXXX";
  path_ = mkdtemp(pattern.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::Write(const std::string& name, const std::string& text) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string TemporaryFolder::Read(const std::string& name) const {
  return ReadAll(path_ + "/" + name);
}

}  // namespace foretrain
