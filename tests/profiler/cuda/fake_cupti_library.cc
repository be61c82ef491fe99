#include "tests/profiler/cuda/fake_cupti_library.h"

#if FORETRAIN_HAVE_CUPTI
#include <dlfcn.h>

#include <cstdlib>

#include "tests/paths.h"

namespace foretrain {

FakeCupti& TheFakeCupti() {
  static FakeCupti* const fake = [] {
    void* const library = dlopen(TestPlugin("cupti").c_str(), RTLD_NOW | RTLD_LOCAL);
    using Entry = FakeCupti* (*)();
    const auto entry =
        library != nullptr ? reinterpret_cast<Entry>(dlsym(library, "fake_cupti")) : nullptr;
    if (entry == nullptr) std::abort();  // the build makes it
    return entry();
  }();
  return *fake;
}

FakeSurroundings& Surroundings() {
  static FakeSurroundings surroundings;
  return surroundings;
}

void ResetFakeCupti() {
  TheFakeCupti() = FakeCupti();
  Surroundings() = FakeSurroundings();
}

CaptureSurroundings MakeSurroundings() {
  return {[](CuptiTable& table, char* why, std::size_t n) {
            const std::string& chosen = Surroundings().library;
            const std::string path = chosen.empty() ? TestPlugin("cupti") : chosen;
            const char* const library = path.c_str();
            return LoadCupti(&library, 1, table, why, n);
          },
          [](const char* name) -> const char* {
            for (const auto& [known, value] : Surroundings().environment) {
              if (known == name) return value.c_str();
            }
            return nullptr;
          }};
}

}  // namespace foretrain
#endif
