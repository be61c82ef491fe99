// JSON: accepted text is written and read back to the same text; typed reading never crashes.
#include <array>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/json_text.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using foretrain::JsonFields;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto parsed = foretrain::ParseJson(text, "fuzz");
  if (!parsed.has_value()) return 0;
  const std::string written = TextOf(*parsed);
  const auto again = foretrain::ParseJson(written, "written");
  FT_CHECK(again.has_value());
  FT_CHECK(TextOf(*again) == written);

  JsonFields fields(*parsed, "fuzz");
  fields.Integer("a", 0, 10);
  fields.Number("b", 0, 10);
  fields.String("c", 10);
  fields.IntegersOr("d", 0, 10);
  fields.Numbers("g", 0, 10);
  constexpr std::array<std::string_view, 2> kChoices = {"one", "two"};
  FT_CHECK(fields.Choice("h", kChoices) < kChoices.size());
  FT_CHECK(fields.ChoiceOr("i", 1, kChoices) < kChoices.size());
  fields.BoolOr("j", false);
  fields.StringsOr("k");
  if (fields.Has("l") && fields.ok()) fields.Refuse("l", "is not wanted");
  FT_CHECK(fields.Where().starts_with("fuzz"));
  JsonFields inner = fields.Object("e");
  inner.Bool("a");
  for (JsonFields& item : fields.ObjectsOr("f")) item.StringsOr("a");
  const bool inner_fine = inner.Finish().has_value();
  const bool fine = fields.Finish().has_value();
  FT_CHECK(inner_fine || !fine);
  return 0;
}
