#include <cstdio>
#include <string_view>

#include "app/version.h"

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--version") {
    std::fputs(foretrain::VersionText().c_str(), stdout);
    return 0;
  }
  std::fputs("usage: foretrain --version\n", stderr);
  return 2;
}
