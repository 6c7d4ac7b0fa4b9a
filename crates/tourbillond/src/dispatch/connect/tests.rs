use super::*;

#[test]
fn of_the_addresses_of_a_name_only_those_that_are_allowed_are_tried() {
    let guard = Guard::default();
    let [inner, outer] = ["10.0.0.1:80", "8.8.8.8:80"].map(|text| text.parse().unwrap());
    assert_eq!(permitted(&guard, &[inner, outer]).unwrap(), [outer]);
    let error = permitted(&guard, &[inner]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}
