// A link to a view: if it can be read, writing and reading it again gives the same link.
#include <string_view>

#include "base/result.h"
#include "tests/fuzz/fuzz.h"
#if FORETRAIN_HAVE_UI
#include "ui/view_link.h"
#endif

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
#if FORETRAIN_HAVE_UI
  using namespace foretrain;
  const auto link = ViewLinkFromJson({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!link) {
    FT_CHECK(!link.error().message.empty());
    return 0;
  }
  const auto again = ViewLinkFromJson(ToJson(*link), "written");
  FT_CHECK(again.has_value() && *again == *link);
  FT_CHECK(link->store.path.empty() == StoreOfLink(*link, "/a/b.ftlink").empty());
#else
  static_cast<void>(data);
  static_cast<void>(size);
#endif
  return 0;
}
