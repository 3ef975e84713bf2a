# Checks of the sources themselves.  Each is listed, and shown as not run, where its tool is absent.
find_program(PYTHON3 python3)
find_program(CLANG_FORMAT NAMES clang-format-14 clang-format)
mark_as_advanced(PYTHON3 CLANG_FORMAT)

# Includes follow the layout table, and the checker itself finds what it should.
add_test(NAME house/layers COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/house/layers.py)
add_test(NAME house/layers-self-test
         COMMAND ${PYTHON3} ${CMAKE_CURRENT_SOURCE_DIR}/house/layers.py --self-test)
if(NOT PYTHON3)
  set_tests_properties(house/layers house/layers-self-test PROPERTIES DISABLED ON)
endif()

# Every source is as clang-format would write it.
file(GLOB_RECURSE formatted CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/src/*.[ch] ${PROJECT_SOURCE_DIR}/src/*.cpp
     ${PROJECT_SOURCE_DIR}/examples/*.[ch])
add_test(NAME house/format COMMAND ${CLANG_FORMAT} --dry-run --Werror ${formatted})
if(NOT CLANG_FORMAT)
  set_tests_properties(house/format PROPERTIES DISABLED ON)
endif()

# Each public header compiles alone, as C and as C++.
file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/dtr/*.h)
foreach(header ${headers})
  get_filename_component(name ${header} NAME_WE)
  foreach(language c cpp)
    set(unit ${CMAKE_CURRENT_BINARY_DIR}/headers/${name}.${language})
    file(CONFIGURE OUTPUT ${unit}
         CONTENT "#include \"dtr/${name}.h\"\n#include \"dtr/${name}.h\"\n")
    list(APPEND header_units ${unit})
  endforeach()
endforeach()
add_library(public_headers OBJECT ${header_units})
target_include_directories(public_headers PRIVATE ${PROJECT_SOURCE_DIR}/include)
target_compile_options(public_headers PRIVATE -pedantic -Werror)

# The page's sources hold, and web/dist is what they build to.
add_test(NAME house/page COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/house/page.sh)
set_tests_properties(house/page PROPERTIES SKIP_RETURN_CODE 77)

set_tests_properties(house/page house/layers house/layers-self-test house/format PROPERTIES LABELS house)
